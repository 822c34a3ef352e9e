package schemas

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"uuid"

	"github.com/google/go-cmp/cmp"
	"github.com/google/jsonschema-go/jsonschema"
	"pgregory.net/rapid"

	"github.com/chaintrail/chaintrail/schemas/jsonx"
	"github.com/chaintrail/chaintrail/schemas/seal"
)

func sample() Event {
	valid := true
	return Event{
		Schema: Version, ID: uuid.MustParse("01a22e62-e7d5-7108-a354-0b239629add2"), Kind: KindRequest,
		Writer: uuid.MustParse("01a22e62-0000-7108-a354-0b239629add2"), Seq: 7, PrevHash: seal.Event([]byte("x")),
		Time: 1_796_000_000_000_001, Tenant: "default", Gateway: "main",
		Correlation: &Correlation{Exchange: uuid.MustParse("01a22e62-0001-7108-a354-0b239629add2"), TraceID: "4bf92f3577b34da6a3ce929d0e0e4736"},
		Actor:       &Actor{Type: "anonymous"},
		Operation:   &Operation{Event: "tools/call", Phase: PhaseRequest, Direction: Sending, Server: "demo", Target: "echo"},
		Decision:    &Decision{Status: StatusSuccess, ChainUS: 12},
		Invocations: []Invocation{{ID: "a", Interceptor: "x/y", Host: "h", Type: TypeValidation, Mode: ModeActive, State: StateFinished, Valid: &valid}},
		Open:        []OpenRef{{Role: RoleBefore, Bytes: 3, Keep: KeepFull}},
	}
}

func TestSchemaFilesAreCurrentAndMatchEvents(t *testing.T) {
	t.Parallel()
	files, err := JSONSchemas()
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range files {
		got, err := os.ReadFile(filepath.Join("event", "v1", name))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s is stale: run make generate", name)
		}
	}
	var schema jsonschema.Schema
	if err := jsonx.Unmarshal(files["event.schema.json"], &schema); err != nil {
		t.Fatal(err)
	}
	resolved, err := schema.Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	sealed, err := jsonx.Marshal(sample())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		json []byte
		ok   bool
	}{
		{"sample", sealed, true},
		{"unknown kind", bytes.Replace(sealed, []byte(`"kind":"request"`), []byte(`"kind":"party"`), 1), false},
		{"upper-case hash", bytes.Replace(sealed, []byte(`"prev_hash":"`), []byte(`"prev_hash":"X`), 1), false},
		{"unknown member", bytes.Replace(sealed, []byte(`{`), []byte(`{"x":1,`), 1), false},
	} {
		var v any
		if err := jsonx.Unmarshal(c.json, &v); err != nil {
			t.Fatal(err)
		}
		if err := resolved.Validate(v); (err == nil) != c.ok {
			t.Errorf("%s: got error %v, want valid: %v", c.name, err, c.ok)
		}
	}
}

func TestEventSurvivesItsJSON(t *testing.T) {
	t.Parallel()
	want := sample()
	sealed, err := jsonx.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	var got Event
	if err := jsonx.UnmarshalStrict(sealed, &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(got, want); diff != "" {
		t.Errorf("event differs (-got +want):\n%s", diff)
	}
}

func TestTimeTextIsFixed(t *testing.T) {
	t.Parallel()
	if got, want := Time(1_796_000_000_000_000).String(), "2026-11-30T00:53:20.000000Z"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	var back Time
	for _, bad := range []string{"", "2026-11-30T00:53:20Z", "2026-11-30T00:53:20.000000+01:00", "2026-11-30 00:53:20.000000Z"} {
		if err := back.UnmarshalText([]byte(bad)); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		want := Time(rapid.Int64Range(0, 4_000_000_000_000_000).Draw(t, "us"))
		text, _ := want.MarshalText()
		var got Time
		if err := got.UnmarshalText(text); err != nil || got != want {
			t.Fatalf("%s came back as %d (%v), want %d", text, got, err, want)
		}
	})
}

func TestItemNames(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		role  Role
		index int
		want  string
	}{{RoleBefore, 0, "payload.before"}, {RoleStep, 3, "payload.step.3"}, {RoleHosts, 0, "plan.hosts"}} {
		got := ItemName(c.role, c.index)
		if got != c.want {
			t.Errorf("got %s, want %s", got, c.want)
		}
		if role, index := ParseItemName(got); role != c.role || index != c.index {
			t.Errorf("%s parsed as %s, %d", got, role, index)
		}
	}
}
