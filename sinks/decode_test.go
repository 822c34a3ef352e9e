package sinks_test

import (
	"testing"

	"github.com/chaintrail/chaintrail/schemas"
	"github.com/chaintrail/chaintrail/schemas/seal"
	"github.com/chaintrail/chaintrail/sinks"
	"github.com/chaintrail/chaintrail/sinks/sinktest"
)

func FuzzDecodeEvent(f *testing.F) {
	w := sinktest.NewWriter()
	for _, m := range w.Call(f, "echo", "ann", schemas.OutcomeDenied, "{}").Events {
		f.Add(m.Subject, m.Data)
	}
	f.Add("chaintrail.v1", []byte(`{"schema":"chaintrail.event/v1","kind":"plan","writer":null}`))
	f.Fuzz(func(t *testing.T, subject string, data []byte) {
		e, err := sinks.DecodeEvent(sinks.Message{Position: 1, Subject: subject, Data: data})
		if e.Hash != seal.Event(data) {
			t.Error("the hash is not that of the data")
		}
		if err == nil && e.Event == nil {
			t.Error("neither event nor error")
		}
		if err == nil {
			e.AppendLine(nil)
		}
	})
}

func FuzzDecodeItem(f *testing.F) {
	w := sinktest.NewWriter()
	for _, m := range w.Call(f, "echo", "ann", schemas.OutcomeDenied, "{}").Items {
		f.Add(m.Header["Chaintrail-Item"][0], m.Data)
	}
	f.Add(`{"part":-1,"parts":9223372036854775807,"index":-5}`, []byte{})
	f.Fuzz(func(t *testing.T, header string, data []byte) {
		e, err := sinks.DecodeItem(sinks.Message{Header: map[string][]string{"Chaintrail-Item": {header}}, Data: data})
		if err == nil && (e.Item == nil || e.Part() == "") {
			t.Error("neither item nor error")
		}
	})
}

func TestShardComesFromTheSubject(t *testing.T) {
	t.Parallel()
	w := sinktest.NewWriter()
	m := w.Event(t, &schemas.Event{Kind: schemas.KindAdmin})
	for subject, want := range map[string]uint16{
		m.Subject: 3, "": 0, "a": 0, "a.b": 0, "a.b.c": 0, "a.b.65535.d": 65535, "a.b.65536": 0, "a.b.-1.c": 0, "a.b.7": 7,
	} {
		m.Subject = subject
		e, err := sinks.DecodeEvent(m)
		if err != nil || e.Shard != want {
			t.Errorf("subject %q gives shard %d, %v, want %d", subject, e.Shard, err, want)
		}
	}
}
