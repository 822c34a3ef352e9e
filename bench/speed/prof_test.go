package main

import (
	"context"
	"log/slog"
	"syscall"
	"testing"
	"time"
	"uuid"

	"github.com/chaintrail/chaintrail/audit/redact"
	"github.com/chaintrail/chaintrail/bus/outbox"
	"github.com/chaintrail/chaintrail/chain"
	"github.com/chaintrail/chaintrail/schemas"
	"github.com/chaintrail/chaintrail/schemas/seal"
)

func cpu() time.Duration {
	var r syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &r)
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

func BenchmarkPlain(b *testing.B) { benchRecords(b, false, 1) }
func BenchmarkWhole(b *testing.B) { benchRecords(b, true, 2) }

func benchRecords(b *testing.B, policyOn bool, per int) {
	o, err := outbox.Open(context.Background(), outbox.Config{Dir: b.TempDir(), Gateway: "bench"}, slog.New(slog.DiscardHandler))
	if err != nil {
		b.Fatal(err)
	}
	defer o.Close(context.Background())
	var to recorder = o
	if policyOn {
		to, _ = redact.NewRecorder(o, redact.Policy{}, &redact.RecorderOptions{SnapshotKey: seal.Key{9}})
	}
	m := newMaker()
	recs := make([]*schemas.Record, 0, per*b.N)
	for range b.N {
		r, out := m.call()
		recs = append(recs, r)
		if per == 2 {
			recs = append(recs, out)
		}
	}
	b.ResetTimer()
	c := cpu()
	var all samples
	t := time.Now()
	for i, r := range recs {
		if err := to.Record(context.Background(), r); err != nil {
			b.Fatal(err)
		}
		if i%(10*per) == 10*per-1 {
			n := time.Now()
			all = append(all, n.Sub(t)/10)
			t = n
		}
	}
	b.ReportMetric(all.p(1), "p1-µs")
	b.ReportMetric(all.p(10), "p10-µs")
	b.ReportMetric(all.p(50), "p50-µs")
	b.ReportMetric(micros(cpu()-c)/float64(b.N), "cpu-µs/op")
}

func BenchmarkNear(b *testing.B) {
	server, _ := newValidator(false)
	set, err := newPlan(context.Background(), "speed", chain.Local(server))
	if err != nil {
		b.Fatal(err)
	}
	plan := set.Current()
	in := chain.Input{
		Interception: uuid.NewV7(), Event: "tools/call", Phase: schemas.PhaseRequest, Direction: schemas.Sending,
		Payload: callParams(payloadBytes),
		Context: chain.Context{Principal: chain.Principal{Type: "user", ID: "ann"}, SessionID: uuid.NewV4().String(), Timestamp: time.Now()},
	}
	b.ReportAllocs()
	b.ResetTimer()
	c := cpu()
	var all samples
	for range b.N {
		t := time.Now()
		plan.Run(context.Background(), in)
		all = append(all, time.Since(t))
	}
	b.ReportMetric(all.p(1), "p1-µs")
	b.ReportMetric(all.p(10), "p10-µs")
	b.ReportMetric(all.p(50), "p50-µs")
	b.ReportMetric(micros(cpu()-c)/float64(b.N), "cpu-µs/op")
}
