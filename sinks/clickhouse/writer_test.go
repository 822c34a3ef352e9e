package clickhouse_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/chaintrail/chaintrail/schemas"
	"github.com/chaintrail/chaintrail/sinks/clickhouse"
	"github.com/chaintrail/chaintrail/sinks/sinktest"
)

func TestEventsBecomeRows(t *testing.T) {
	t.Parallel()
	r := newRig(t, "CHAINTRAIL_3", clickhouse.ContentEvents)
	w := sinktest.NewWriter()
	r.stream.Add(w.Event(t, &schemas.Event{Kind: schemas.KindWriter, Life: &schemas.WriterLife{State: "open"}}))
	r.stream.Add(w.Event(t, &schemas.Event{Kind: schemas.KindPlan, Plan: &schemas.Plan{Server: "demo"}}))
	call := w.Call(t, "echo", "ann", schemas.OutcomeAllowed, `{"a":1}`)
	r.stream.Add(call.Events...)
	r.stream.Add(w.Event(t, &schemas.Event{Kind: schemas.KindCheckpoint}), w.Result(t, call, 1))
	r.drain(t)
	r.clean(t)
	for query, want := range map[string]uint64{
		"SELECT count() FROM events": 6,
		"SELECT count() FROM events WHERE shard = 3 AND hash = SHA256(concat(char(0), raw))":         6,
		"SELECT max(leaf) FROM events WHERE kind != 'checkpoint'":                                    4,
		"SELECT count() FROM plans":                                                                  1,
		"SELECT count() FROM interceptions WHERE target = 'echo'":                                    2,
		"SELECT count() FROM exchanges WHERE outcome = 'allowed' AND total_us = 1000":                1,
		"SELECT count() FROM invocations":                                                            2,
		"SELECT count() FROM invocations WHERE interceptor = 'siem' AND recorded AND attempt = 1":    1,
		"SELECT count() FROM invocations WHERE interceptor = 'guard' AND valid AND recorded IS NULL": 1,
		"SELECT count() FROM invocations WHERE mode = 'active' AND mode_reason = 'canary_percent'":   1,
	} {
		if got := count(t, r.conn, query); got != want {
			t.Errorf("%s = %d, want %d", query, got, want)
		}
	}
	var raw string
	if err := r.conn.QueryRow(t.Context(), "SELECT raw FROM events WHERE event_id = toUUID(?)", call.Outcome.ID.String()).Scan(&raw); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(call.Events[1].Data), raw); diff != "" {
		t.Errorf("sealed bytes changed: %s", diff)
	}
}

func TestOpenItemsBecomeRows(t *testing.T) {
	t.Parallel()
	r := newRig(t, "CHAINTRAIL_OPEN_3", clickhouse.ContentOpen)
	w := sinktest.NewWriter()
	call := w.Call(t, "echo", "ann", schemas.OutcomeAllowed, "{\"a\":\"\xff\x00 odd bytes\"}")
	r.stream.Add(call.Items...)
	r.stream.Add(w.Item(t, &call.Request, schemas.OpenHeader{Role: schemas.RoleSnapshot, Of: "payload.before"}, []byte("secret")))
	r.stream.Add(w.Item(t, &call.Request, schemas.OpenHeader{Role: schemas.RoleStep, Index: 2, Part: 1, Parts: 3}, []byte("part")))
	stats := r.drain(t)
	r.clean(t)
	if stats.Transient != 1 || stats.Stored != 4 {
		t.Errorf("transient %d, stored %d, want 1 and 4", stats.Transient, stats.Stored)
	}
	for query, want := range map[string]uint64{
		"SELECT count() FROM bodies":     2,
		"SELECT count() FROM open_items": 2,
		"SELECT count() FROM bodies WHERE data = unhex('7B2261223A22FF00206F6464206279746573227D')":             1,
		"SELECT count() FROM bodies WHERE role = 'payload.step' AND idx = 2 AND part = 1 AND parts = 3":         1,
		"SELECT count() FROM open_items WHERE principal = 'ann' AND method = 'tools/call' AND request_id = '7'": 1,
		"SELECT count() FROM open_items WHERE reason = 'because of echo'":                                       1,
	} {
		if got := count(t, r.conn, query); got != want {
			t.Errorf("%s = %d, want %d", query, got, want)
		}
	}
}
