package schemas

import (
	"reflect"
	"strings"
	"testing"
	"uuid"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/chaintrail/chaintrail/schemas/jsonx"
	"github.com/chaintrail/chaintrail/schemas/seal"
)

func fullEvent() *Event {
	yes, no := true, false
	return &Event{
		Schema: Version, ID: uuid.NewV7(), Kind: KindOutcome, Writer: uuid.NewV7(), Seq: 1<<64 - 1, PrevHash: seal.Hash{1},
		Time: 1_700_000_000_123_456, Tenant: "acme", Gateway: "gw",
		Correlation: &Correlation{
			Exchange: uuid.NewV7(), Call: uuid.NewV7(), Interception: uuid.NewV7(), Session: "a", RequestID: "b", Parent: uuid.NewV7(),
			StateIn: "e", StateOut: "f", TraceID: "c", SpanID: "d", ProtocolVersion: "2025-11-25", Transport: "http", ServerVersion: "2026-07-28",
		},
		Actor:     &Actor{Type: "user", Pseudonym: "p", VerifiedBy: "header:X-User"},
		Operation: &Operation{Event: "tools/call", Phase: PhaseResponse, Direction: Receiving, Reverse: true, Server: "s", Target: "t", TargetRef: "r"},
		Decision: &Decision{
			Status: StatusValidationFailed, Outcome: OutcomeDenied, AbortedAt: "x", AbortType: "validation", AbortPhase: PhaseRequest,
			Errors: 1, Warnings: 2, Infos: 3, Modified: true, PlanDigest: seal.Hash{2}, ChainUS: -4, BackendUS: 5, TotalUS: 1 << 60,
			StartedAt: 7, IsError: true, ErrorCode: -32603, Cause: "y",
		},
		Invocations: []Invocation{
			{
				ID: "i", Interceptor: "n", Version: "1", Host: "h", Type: TypeValidation, Mode: ModeAudit, ModeReason: "canary_rest", FailOpen: true, Priority: -1 << 31,
				Order: 3, State: StateFinished, SkipReason: SkipBudget, Valid: &yes, Severity: SeverityWarn, Modified: &no, Recorded: &yes,
				Input: "in", Output: "out", Errors: 1, Warnings: 2, Infos: 3, ErrorCode: -1, Attempt: 2, DurationUS: 9,
			},
			{ID: "j", State: StateSkipped},
		},
		Open: []OpenRef{
			{Role: RoleStep, Index: 2, Bytes: 3, Commitment: seal.Hash{4}, Keep: KeepFull, KeptBytes: 2, Kept: seal.Hash{5}, Flags: []string{"capped", "redacted"}},
			{Role: RoleContext, Keep: KeepNone},
		},
	}
}

// set fails the test for each field that is zero, so that a new one cannot be forgotten.
func set(t *testing.T, name string, v reflect.Value) {
	t.Helper()
	switch {
	case v.IsZero():
		t.Errorf("%s is not set here", name)
	case v.Kind() == reflect.Pointer && v.Elem().Kind() == reflect.Struct:
		set(t, name, v.Elem())
	case v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.Struct:
		set(t, name, v.Index(0))
	case v.Kind() == reflect.Struct:
		for field, value := range v.Fields() {
			switch field.Name {
			case "Life", "Plan", "Gap", "Admin", "Checkpoint": // rare
			default:
				set(t, name+"."+field.Name, value)
			}
		}
	default:
	}
}

// What the journal writes is read without reflection: else the fast way is there for nothing.
func TestSealedFormIsDecodedFast(t *testing.T) {
	t.Parallel()
	set(t, "event", reflect.ValueOf(fullEvent()))
	for _, want := range []*Event{fullEvent(), {Schema: Version, Kind: KindCheckpoint}} {
		raw, err := want.AppendJSON(nil)
		if err != nil {
			t.Fatal(err)
		}
		got := decodeSealed(string(raw))
		if got == nil {
			t.Fatalf("%s is left to the strict decoder", raw)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("event differs (-want +got):\n%s", diff)
		}
	}
	header := OpenHeader{
		Event: uuid.NewV7(), Exchange: uuid.NewV7(), Tenant: "acme", Writer: uuid.NewV7(), Seq: 7, Time: 8, Kind: KindRequest, Role: RoleBefore,
		Index: 1, Of: "x", Salt: seal.NewSalt(), Keep: KeepFull, Part: 1, Parts: 2,
	}
	raw, err := jsonx.Marshal(&header)
	if err != nil {
		t.Fatal(err)
	}
	var got OpenHeader
	if !openDecoder(string(raw)).openHeader(&got) || got != header {
		t.Errorf("header is %+v, want %+v", got, header)
	}
	for _, c := range []Context{{}, {SessionID: "s", RequestID: jsonx.Value(`"7"`), Target: "t", Principal: "ann", Protocol: "p"}, {RequestID: jsonx.Value("-7")}} {
		raw, err := jsonx.Marshal(&c)
		if err != nil {
			t.Fatal(err)
		}
		var got Context
		if !openDecoder(string(raw)).context(&got) || !cmp.Equal(got, c) {
			t.Errorf("context is %+v, want %+v", got, c)
		}
	}
}

// The two decoders never judge one text differently.
func FuzzDecode(f *testing.F) {
	full, err := fullEvent().AppendJSON(nil)
	if err != nil {
		f.Fatal(err)
	}
	for _, text := range []string{
		string(full), `{}`, `{"schema":"x"}`, `{,"seq":1}`, `{"seq":01}`, `{"seq":-0}`, `{"seq":1}x`, `{"actor":{}}`, `{"open":[]}`,
		`{"open":[{"role":"a"},]}`, `{"open":[{"role":"a","flags":[]}]}`, `{"decision":{"errors":99999999999999999999}}`,
		`{"request_id":"\u0041"}`, `{"request_id":1.0}`, `{"request_id":-0}`, `{"session_id":"é"}`, `{"part":1,"parts":-2}`, `{"tenant":null}`,
		`{"time":"2024-02-30T00:00:00.000000Z"}`, `{"id":"urn:uuid:f81d4fae-7dec-11d0-a765-00a0c91e6bf6"}`, `{"actor":{"type":"a"}`,
		`{"invocations":[{"id":"a","priority":2147483648}]}`, `{"invocations":[{"id":"a","valid":nul}]}`, `{"salt":"AA"}`, ``, `{`,
		strings.Replace(string(full), `"kind"`, ` "kind"`, 1),
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		same(t, data, func() (*Event, error) { return DecodeEvent(data) })
		same(t, data, func() (*OpenHeader, error) { return DecodeOpenHeader(string(data)) })
		same(t, data, func() (*Context, error) { return DecodeContext(data) })
	})
}

func same[T any](t *testing.T, data []byte, decode func() (*T, error)) {
	t.Helper()
	want := new(T)
	wantErr := jsonx.Unmarshal(data, want)
	got, err := decode()
	if (err == nil) != (wantErr == nil) {
		t.Fatalf("%T: error %v, strictly %v", want, err, wantErr)
	}
	if err != nil {
		return
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Fatalf("%T differs (-strict +got):\n%s", want, diff)
	}
}

func BenchmarkDecodeEvent(b *testing.B) {
	raw, err := fullEvent().AppendJSON(nil)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := DecodeEvent(raw); err != nil {
			b.Fatal(err)
		}
	}
}
