package redact

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/chaintrail/chaintrail/schemas"
	"github.com/chaintrail/chaintrail/schemas/seal"
)

// memory is a journal that keeps its records.
type memory struct {
	records []*schemas.Record
	err     error
}

func (m *memory) Record(_ context.Context, rec *schemas.Record) error {
	m.records = append(m.records, rec)
	return m.err
}

var testKey = seal.Key{1, 2, 3}

func newTestRecorder(tb testing.TB, next Journal, policy Policy) *Recorder {
	tb.Helper()
	r, err := NewRecorder(next, policy, &RecorderOptions{SnapshotKey: testKey, Tenant: "default"})
	if err != nil {
		tb.Fatal(err)
	}
	return r
}

func request(payload string) *schemas.Record {
	rec := &schemas.Record{Event: schemas.Event{
		Kind:      schemas.KindRequest,
		Operation: &schemas.Operation{Event: "tools/call", Phase: schemas.PhaseRequest, Server: "shop", Target: "buy"},
	}}
	rec.Add(schemas.RoleBefore, 0, []byte(payload))
	rec.Add(schemas.RoleContext, 0, []byte(`{"principal":"alice@example.com","client_address":"192.0.2.1","target":"buy"}`))
	return rec
}

func deferTo(rec *schemas.Record, inputs ...string) {
	for i, input := range inputs {
		rec.Event.Invocations = append(rec.Event.Invocations, schemas.Invocation{
			ID: input, Interceptor: "sink", Order: i, State: schemas.StateDeferred, Input: input,
		})
	}
}

func TestRecorderKeeps(t *testing.T) {
	t.Parallel()
	payload := `{"token":"` + github + `","n":1}`
	tests := []struct {
		name  string
		rule  Rule
		want  string
		flags []string
	}{
		{"redacted", Rule{Keep: schemas.KeepRedacted}, `{"token":"[redacted:secret]","n":1}`, []string{"redacted"}},
		{"full", Rule{Keep: schemas.KeepFull}, payload, nil},
		{"capped", Rule{Keep: schemas.KeepFull, Cap: 8}, `{"token"`, []string{"capped"}},
		{"redacted and capped", Rule{Keep: schemas.KeepRedacted, Cap: 20}, `{"token":"[redacted:`, []string{"redacted", "capped"}},
		{"digest", Rule{Keep: schemas.KeepDigest}, "", nil},
		{"none", Rule{Keep: schemas.KeepNone}, "", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tt.rule.Role = Patterns{"payload.before"}
			r := newTestRecorder(t, &memory{}, Policy{Rules: []Rule{tt.rule}})
			rec := request(payload)
			given := rec.Items[0].Data
			if err := r.Record(t.Context(), rec); err != nil {
				t.Fatal(err)
			}
			item := rec.Items[0]
			if string(item.Data) != tt.want {
				t.Errorf("kept %s, want %s", item.Data, tt.want)
			}
			if item.Keep != tt.rule.Keep || item.Ref.Keep != tt.rule.Keep || !slices.Equal(item.Ref.Flags, tt.flags) {
				t.Errorf("keep %s, ref %+v, want %s with flags %v", item.Keep, item.Ref, tt.rule.Keep, tt.flags)
			}
			if item.Ref.Bytes != len(payload) || item.Ref.Commitment.IsZero() {
				t.Errorf("ref does not tell of the true value: %+v", item.Ref)
			}
			if none := tt.rule.Keep == schemas.KeepNone; none != (item.Salt == seal.Salt{}) {
				t.Errorf("salt of %s is %v", tt.rule.Keep, item.Salt)
			} else if !none && item.Ref.Commitment != seal.Commit(seal.DomainTrue, item.Salt, []byte(payload)) {
				t.Error("the commitment is not one to the true value")
			}
			if differs := len(tt.flags) > 0; differs != !item.Ref.Kept.IsZero() || differs != (item.Ref.KeptBytes > 0) {
				t.Errorf("kept form: %+v, differs = %v", item.Ref, differs)
			} else if differs && item.Ref.Kept != seal.Commit(seal.DomainKept, item.Salt, item.Data) {
				t.Error("the commitment to the kept form is wrong")
			}
			if tt.rule.Keep == schemas.KeepFull && tt.rule.Cap == 0 && &given[0] != &item.Data[0] {
				t.Error("a full value was copied")
			}
			if string(given) != payload {
				t.Error("the true bytes were changed in place")
			}
		})
	}
}

func TestRecorderKeepsPrincipal(t *testing.T) {
	t.Parallel()
	rec := request(`{"mail":"bob@example.com"}`)
	if err := newTestRecorder(t, &memory{}, Policy{}).Record(t.Context(), rec); err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(rec.Items[1].Data, []byte("alice@example.com")) {
		t.Errorf("the principal is gone: %s", rec.Items[1].Data)
	}
	if bytes.Contains(rec.Items[0].Data, []byte("bob")) {
		t.Errorf("an address in a body stayed: %s", rec.Items[0].Data)
	}
}

func TestRecorderSnapshots(t *testing.T) {
	t.Parallel()
	payload := `{"token":"` + github + `"}`
	rec := request(payload)
	rec.Add(schemas.RoleAfter, 0, []byte(`{"clean":1}`))
	deferTo(rec, "payload.before", "payload.before", "payload.after")
	next := &memory{err: errors.New("full")}
	r := newTestRecorder(t, next, Policy{})
	for range 2 { // a caller may try again with the same record
		if err := r.Record(t.Context(), rec); !errors.Is(err, next.err) {
			t.Fatalf("Record = %v, want the journal's error", err)
		}
	}
	if len(rec.Items) != 4 {
		t.Fatalf("%d items, want three and one snapshot", len(rec.Items))
	}
	before := rec.Items[0]
	if before.Ref.Commitment != seal.Commit(seal.DomainTrue, before.Salt, []byte(payload)) {
		t.Error("the second try committed to the kept form instead of the true value")
	}
	snapshot := rec.Items[3]
	if snapshot.Of != "payload.before" || snapshot.Event != rec.Event.ID {
		t.Errorf("snapshot header: %+v", snapshot.OpenHeader)
	}
	if bytes.Contains(snapshot.Data, []byte("ghp")) {
		t.Error("the snapshot is not encrypted")
	}
	entry := schemas.EntryItem{Header: snapshot.OpenHeader, Data: snapshot.Data}
	if got, err := OpenSnapshot(testKey, entry); err != nil || string(got) != payload {
		t.Errorf("OpenSnapshot = %q, %v", got, err)
	}
	if _, err := OpenSnapshot(seal.Key{9}, entry); !errors.Is(err, ErrSnapshot) {
		t.Errorf("another key gave %v, want ErrSnapshot", err)
	}
	moved := entry
	moved.Header.Of = "payload.after"
	if _, err := OpenSnapshot(testKey, moved); !errors.Is(err, ErrSnapshot) {
		t.Errorf("another place gave %v, want ErrSnapshot", err)
	}
	short := entry
	short.Data = short.Data[:3]
	if _, err := OpenSnapshot(testKey, short); !errors.Is(err, ErrSnapshot) {
		t.Errorf("a cut snapshot gave %v, want ErrSnapshot", err)
	}
}

func TestRecorderSnapshotOfContextAndHosts(t *testing.T) {
	t.Parallel()
	rec := request(`{}`)
	deferTo(rec, "payload.before")
	r := newTestRecorder(t, &memory{}, Policy{Rules: []Rule{{Role: Patterns{"context"}, Keep: schemas.KeepNone}}})
	if err := r.Record(t.Context(), rec); err != nil {
		t.Fatal(err)
	}
	if last := rec.Items[len(rec.Items)-1]; last.Role != schemas.RoleSnapshot || last.Of != "context" {
		t.Errorf("last item is %s of %q, want a snapshot of the context", last.Role, last.Of)
	}
	plan := &schemas.Record{Event: schemas.Event{Kind: schemas.KindPlan}}
	plan.Add(schemas.RoleHosts, 0, []byte(`[{"host":"h","env":{"API_TOKEN":"x"}}]`))
	if err := r.Record(t.Context(), plan); err != nil {
		t.Fatal(err)
	}
	if len(plan.Items) != 2 || plan.Items[1].Of != "plan.hosts" || bytes.Contains(plan.Items[0].Data, []byte(`"x"`)) {
		t.Errorf("items of the plan: %+v, want hosts without the token and a snapshot", plan.Items)
	}
}

func TestRecorderDeniesSnapshots(t *testing.T) {
	t.Parallel()
	rec := request(`{"token":"` + github + `"}`)
	rec.Add(schemas.RoleAfter, 0, []byte(`{"clean":1}`))
	deferTo(rec, "payload.before", "payload.after")
	given := rec.Event.Invocations
	r, err := NewRecorder(&memory{}, Policy{Snapshots: "deny"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Record(t.Context(), rec); err != nil {
		t.Fatal(err)
	}
	got := rec.Event.Invocations
	if got[0].State != schemas.StateSkipped || got[0].SkipReason != schemas.SkipPolicy {
		t.Errorf("the denied invocation is %s %s, want skipped by policy", got[0].State, got[0].SkipReason)
	}
	if got[1].State != schemas.StateDeferred {
		t.Errorf("the other invocation is %s, want deferred: its input is kept as it is", got[1].State)
	}
	if given[0].State != schemas.StateDeferred {
		t.Error("the runner's own slice was changed")
	}
	if len(rec.Items) != 3 {
		t.Errorf("%d items, want no snapshot", len(rec.Items))
	}
	if _, err := NewRecorder(&memory{}, Policy{}, nil); !errors.Is(err, ErrSnapshotKey) {
		t.Errorf("no key gave %v, want ErrSnapshotKey", err)
	}
}

func TestRecorderFindsUnlistedTool(t *testing.T) {
	t.Parallel()
	rec := request(`{"x":1}`)
	rec.Event.Operation.Target = ""
	r := newTestRecorder(t, &memory{}, Policy{Rules: []Rule{{Tool: Patterns{"buy"}, Role: Patterns{"payload.*"}, Keep: schemas.KeepNone}}})
	if err := r.Record(t.Context(), rec); err != nil {
		t.Fatal(err)
	}
	if rec.Items[0].Keep != schemas.KeepNone {
		t.Errorf("kept %s, want none: the tool was asked for by name", rec.Items[0].Keep)
	}
}

func TestPolicyNoneLeavesNothing(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.SliceOfN(rapid.Byte(), 8, 64).Draw(t, "value")
		rec := &schemas.Record{Event: schemas.Event{Kind: schemas.KindRequest}}
		rec.Add(schemas.RoleBefore, 0, slices.Clone(value))
		deferTo(rec, "payload.before")
		policy := Policy{Default: schemas.KeepNone}
		r, err := NewRecorder(&memory{}, policy, &RecorderOptions{SnapshotKey: testKey})
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Record(context.Background(), rec); err != nil {
			t.Fatal(err)
		}
		for _, item := range rec.Items {
			if bytes.Contains(item.Data, value) {
				t.Fatalf("item %s still holds the value", item.Name())
			}
		}
		if rec.Items[0].Data != nil || rec.Items[0].Salt != (seal.Salt{}) {
			t.Fatalf("policy none left %v", rec.Items[0])
		}
	})
}

func BenchmarkRecorder(b *testing.B) {
	payload := cleanPayload()
	ctx := []byte(`{"session_id":"s-3","request_id":17,"method":"tools/call","target":"search_documents","principal_type":"user","principal":"u-17","client_name":"desk","client_version":"1.2.3"}`)
	r := newTestRecorder(b, discard{}, Policy{})
	var event schemas.Event
	event.Kind = schemas.KindRequest
	event.Operation = &schemas.Operation{Event: "tools/call", Phase: schemas.PhaseRequest}
	items := make([]schemas.OpenItem, 2)
	b.ReportAllocs()
	for b.Loop() {
		rec := schemas.Record{Event: event, Items: items}
		items[0] = schemas.OpenItem{Role: schemas.RoleBefore, Data: payload}
		items[1] = schemas.OpenItem{Role: schemas.RoleContext, Data: ctx}
		if err := r.Record(b.Context(), &rec); err != nil {
			b.Fatal(err)
		}
	}
}

type discard struct{}

func (discard) Record(context.Context, *schemas.Record) error { return nil }

func TestRecorderLeavesShedAlone(t *testing.T) {
	t.Parallel()
	rec := request(strings.Repeat("x", 10))
	rec.Shed, rec.Event.Kind = true, schemas.KindOutcome
	next := &memory{}
	if err := newTestRecorder(t, next, Policy{}).Record(t.Context(), rec); err != nil || len(next.records) != 1 {
		t.Errorf("Record = %v with %d records passed on", err, len(next.records))
	}
}
