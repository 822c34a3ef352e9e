package outbox

import (
	"bytes"
	"log/slog"
	"os"
	"testing"
	"uuid"

	"go.uber.org/goleak"

	"github.com/chaintrail/chaintrail/schemas"
	"github.com/chaintrail/chaintrail/schemas/seal"
)

func TestMain(m *testing.M) {
	if role := os.Getenv(childEnv); role != "" {
		child(role)
		return
	}
	goleak.VerifyTestMain(m)
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// open starts an outbox in cfg.Dir, or a new folder, and closes it with the test.
func open(tb testing.TB, cfg Config) *Outbox {
	tb.Helper()
	if cfg.Dir == "" {
		cfg.Dir = tb.TempDir()
	}
	o, err := Open(tb.Context(), cfg, quiet())
	if err != nil {
		tb.Fatalf("Open: %v", err)
	}
	tb.Cleanup(func() {
		if err := o.Close(tb.Context()); err != nil {
			tb.Errorf("Close: %v", err)
		}
	})
	return o
}

func request(exchange uuid.UUID, payload []byte) *schemas.Record {
	rec := &schemas.Record{Event: schemas.Event{
		Kind:        schemas.KindRequest,
		Correlation: &schemas.Correlation{Exchange: exchange, Session: "0123456789abcdef0123456789abcdef", Transport: "http"},
		Actor:       &schemas.Actor{Type: "user", Pseudonym: "fedcba9876543210fedcba9876543210"},
		Operation: &schemas.Operation{
			Event: "tools/call", Phase: schemas.PhaseRequest, Direction: schemas.Sending, Server: "files", Target: "read",
		},
		Decision: &schemas.Decision{Status: schemas.StatusSuccess, ChainUS: 17},
	}}
	rec.Add(schemas.RoleContext, 0, []byte(`{"principal":"someone"}`))
	rec.Add(schemas.RoleBefore, 0, payload)
	return rec
}

func outcome(exchange uuid.UUID) *schemas.Record {
	return &schemas.Record{Event: schemas.Event{
		Kind:        schemas.KindOutcome,
		Correlation: &schemas.Correlation{Exchange: exchange},
		Decision:    &schemas.Decision{Status: schemas.StatusSuccess, Outcome: schemas.OutcomeAllowed},
	}}
}

func mustRecord(tb testing.TB, o *Outbox, rec *schemas.Record) {
	tb.Helper()
	if err := o.Record(tb.Context(), rec); err != nil {
		tb.Fatalf("Record %s: %v", rec.Event.Kind, err)
	}
}

// scan reads a whole journal.
func scan(tb testing.TB, dir string) []schemas.Entry {
	tb.Helper()
	var out []schemas.Entry
	for e, err := range Scan(dir) {
		if err != nil {
			tb.Fatalf("Scan after event %d: %v", len(out), err)
		}
		out = append(out, e)
	}
	return out
}

// benchRecord is a 2 KB event: payload and context beside it, committed to as by the policy stage.
func benchRecord(payload, context []byte, salt seal.Salt) *schemas.Record {
	valid := true
	rec := request(uuid.NewV7(), payload)
	rec.Event.ID = uuid.NewV7()
	rec.Items[0].Data = context
	rec.Event.Invocations = []schemas.Invocation{{
		ID: "0123456789abcdef0123456789abcdef", Interceptor: "secrets", Version: "1.2.0", Host: "inprocess",
		Type: schemas.TypeValidation, Mode: schemas.ModeActive, State: schemas.StateFinished, Valid: &valid, DurationUS: 12,
	}}
	for i := range rec.Items {
		it := &rec.Items[i]
		it.Salt, it.Keep = salt, schemas.KeepFull
		it.Ref = schemas.OpenRef{Role: it.Role, Bytes: len(it.Data), Commitment: seal.Hash(salt), Keep: schemas.KeepFull}
	}
	return rec
}

func BenchmarkRecord(b *testing.B) {
	for _, bench := range []struct {
		name string
		d    Durability
		par  bool
		refs bool
	}{
		{"process", DurableProcess, false, true},
		{"process/unpoliced", DurableProcess, false, false},
		{"process/parallel", DurableProcess, true, true},
		{"disk", DurableDisk, false, true},
		{"disk/parallel", DurableDisk, true, true},
	} {
		b.Run(bench.name, func(b *testing.B) {
			o := open(b, Config{
				Durability: Durabilities{Request: bench.d, Outcome: bench.d},
				MaxBytes:   64 << 30, SegmentBytes: 64 << 20, KeepFor: 1,
			})
			payload := bytes.Repeat([]byte("payload "), 128)
			context := bytes.Repeat([]byte("ctx "), 64)
			salt := seal.NewSalt()
			b.ReportAllocs()
			one := func(rec *schemas.Record) {
				rec.Event.Open = nil
				if !bench.refs {
					rec.Items[0].Ref, rec.Items[1].Ref = schemas.OpenRef{}, schemas.OpenRef{}
				}
				if err := o.Record(b.Context(), rec); err != nil {
					b.Fatal(err)
				}
				if rec.Event.Seq%50000 == 0 {
					_ = o.Release(rec.Event.Seq)
				}
			}
			if bench.par {
				b.SetParallelism(16)
				b.RunParallel(func(pb *testing.PB) {
					rec := benchRecord(payload, context, salt)
					for pb.Next() {
						one(rec)
					}
				})
				return
			}
			rec := benchRecord(payload, context, salt)
			for b.Loop() {
				one(rec)
			}
			b.ReportMetric(float64(o.Stats().Bytes)/float64(b.N), "bytes/event")
		})
	}
}

func BenchmarkRead(b *testing.B) {
	o := open(b, Config{MaxBytes: 8 << 30})
	payload := bytes.Repeat([]byte("payload "), 128)
	const events = 20000
	for range events {
		mustRecord(b, o, benchRecord(payload, payload[:256], seal.Salt{}))
	}
	b.ReportAllocs()
	b.ResetTimer()
	n := 0
	for b.Loop() {
		after := uint64(n % events)
		got, err := o.Read(b.Context(), after, 1000, 4<<20)
		if err != nil {
			b.Fatal(err)
		}
		n += len(got)
	}
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "events/s")
}

func BenchmarkBigRecord(b *testing.B) {
	o := open(b, Config{MaxBytes: 8 << 30, KeepFor: 1})
	payload := make([]byte, 12<<20)
	b.ReportAllocs()
	b.SetBytes(12 << 20)
	for b.Loop() {
		rec := benchRecord(payload, []byte("{}"), seal.Salt{})
		mustRecord(b, o, rec)
		_ = o.Release(rec.Event.Seq)
	}
}
