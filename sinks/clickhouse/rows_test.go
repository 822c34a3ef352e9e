package clickhouse

import (
	"context"
	"fmt"
	"io"
	"math"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/proto"

	"github.com/chaintrail/chaintrail/schemas"
	"github.com/chaintrail/chaintrail/sinks"
	"github.com/chaintrail/chaintrail/sinks/sinktest"
)

// even fails the test when the columns of a block differ in length, which the server would refuse for ever.
func even(t *testing.T, blocks []*block) {
	t.Helper()
	for _, b := range blocks {
		for _, c := range b.columns {
			if c.size() != b.rows() {
				t.Errorf("column %s of %s has %d values for %d rows", c.label(), b.table, c.size(), b.rows())
			}
		}
	}
}

func FuzzEventRows(f *testing.F) {
	w := sinktest.NewWriter()
	c := w.Call(f, "echo", "ann", schemas.OutcomeDenied, "{}")
	for _, m := range append(c.Events, w.Result(f, c, 2)) {
		f.Add(m.Data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		e, err := sinks.DecodeEvent(sinks.Message{Position: 1, Published: time.Now(), Data: data})
		if err != nil {
			return
		}
		b := newEventBlocks("S", []sinks.Entry{e})
		b.add(&e, map[string]bool{})
		even(t, b.all())
		if b.events.rows() != 1 {
			t.Error("a sealed event has no row")
		}
	})
}

func FuzzItemRows(f *testing.F) {
	w := sinktest.NewWriter()
	for _, m := range w.Call(f, "echo", "ann", schemas.OutcomeDenied, "{}").Items {
		f.Add(m.Header["Chaintrail-Item"][0], m.Data)
	}
	f.Fuzz(func(t *testing.T, header string, data []byte) {
		e, err := sinks.DecodeItem(sinks.Message{Header: map[string][]string{"Chaintrail-Item": {header}}, Data: data})
		if err != nil {
			return
		}
		b := newOpenBlocks("S", []sinks.Entry{e})
		b.add(&e)
		even(t, b.all())
		if b.items.rows()+b.bodies.rows() != 1 {
			t.Error("an item does not have one row")
		}
	})
}

func TestOddNumbersAreDrawnIn(t *testing.T) {
	t.Parallel()
	var b block
	counts, times := countColumn(&b, "n"), timeColumn(&b, "t")
	for _, n := range []int{math.MinInt, -1, 0, math.MaxInt} {
		counts.put(n)
	}
	if counts.v[0] != 0 || counts.v[1] != 0 || counts.v[3] != math.MaxUint32 {
		t.Errorf("counts are %v", counts.v)
	}
	times.put(math.MinInt64)
	times.put(math.MaxInt64)
	if schemas.Time(times.v[0]).Std().Year() != 1900 || schemas.Time(times.v[1]).Std().Year() != 2299 {
		t.Errorf("times are %v", times.v)
	}
}

func TestOldServersAreRefused(t *testing.T) {
	t.Parallel()
	for version, want := range map[proto.Version]bool{
		{Major: 18, Minor: 16}: false, {Major: 24, Minor: 7, Patch: 9}: false, {Major: 24, Minor: 8}: true, {Major: 25}: true,
		{Major: 26, Minor: 7, Patch: 3}: true,
	} {
		if got := accepted(version) == nil; got != want {
			t.Errorf("version %v is accepted: %v, want %v", version, got, want)
		}
	}
}

func TestOnlyDefiniteErrorsOfTheDataAreHalved(t *testing.T) {
	t.Parallel()
	for code, want := range map[int32]bool{
		469: true, 321: true, // these values
		241: false, 252: false, 159: false, 210: false, 242: false, 999: false, // later perhaps
		16: false, 53: false, 60: false, 497: false, 516: false, // an operator can mend it
	} {
		err := fmt.Errorf("send: %w", &clickhouse.HTTPError{StatusCode: 500, Err: &clickhouse.Exception{Code: code}})
		if got := isDataError(err); got != want {
			t.Errorf("code %d is a data error: %v, want %v", code, got, want)
		}
	}
	if isDataError(io.ErrUnexpectedEOF) || isDataError(context.DeadlineExceeded) {
		t.Error("an error of the network is taken for one of the data")
	}
}
