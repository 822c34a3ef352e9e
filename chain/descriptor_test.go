package chain

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/chaintrail/chaintrail/schemas"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

func TestDescriptors(t *testing.T) {
	t.Parallel()
	call := []string{"tools/call"}
	request := []schemas.Hook{{Events: call, Phase: schemas.PhaseRequest}}
	both := []schemas.Hook{{Events: call, Phase: schemas.PhaseRequest}, {Events: call, Phase: schemas.PhaseResponse}}
	entry := func(change func(*schemas.PlanEntry)) schemas.PlanEntry {
		e := schemas.PlanEntry{
			Host: "h", Name: "n", Type: schemas.TypeValidation, Mode: schemas.ModeActive, Hooks: request, Origin: []string{"descriptor"},
		}
		if change != nil {
			change(&e)
		}
		return e
	}
	const hooks = `"hooks":[{"events":["tools/call"],"phase":"request"}]`
	for _, test := range []struct {
		name   string
		text   string
		want   schemas.PlanEntry
		reason string
	}{
		{name: "plain", text: `{"name":"n","type":"validation",` + hooks + `}`, want: entry(nil)},
		{name: "everything", text: `{"name":"n","version":"1","description":"d","type":"mutation","mode":"audit","failOpen":true,"priorityHint":{"request":-5,"response":7},"compat":{},"configSchema":{},"_meta":{},` + hooks + `}`, want: entry(func(e *schemas.PlanEntry) {
			e.Version, e.Type, e.Mode, e.FailOpen, e.PriorityRq, e.PriorityRs = "1", schemas.TypeMutation, schemas.ModeAudit, true, -5, 7
		})},
		{name: "mode empty", text: `{"name":"n","type":"validation","mode":"",` + hooks + `}`, want: entry(nil)},
		{name: "mode null", text: `{"name":"n","type":"validation","mode":null,` + hooks + `}`, want: entry(nil)},
		{name: "mode active", text: `{"name":"n","type":"validation","mode":"active",` + hooks + `}`, want: entry(nil)},
		{name: "mode enforce", text: `{"name":"n","type":"validation","mode":"enforce",` + hooks + `}`, want: entry(nil)},
		{name: "mode unknown", text: `{"name":"n","type":"validation","mode":"Audit",` + hooks + `}`, reason: noteUnknownMode},
		{name: "mode of wrong type", text: `{"name":"n","type":"validation","mode":1,` + hooks + `}`, reason: noteUnknownMode},
		{name: "priority scalar", text: `{"name":"n","type":"validation","priorityHint":-3,` + hooks + `}`, want: entry(func(e *schemas.PlanEntry) { e.PriorityRq, e.PriorityRs = -3, -3 })},
		{name: "priority of one phase", text: `{"name":"n","type":"validation","priorityHint":{"response":4},` + hooks + `}`, want: entry(func(e *schemas.PlanEntry) { e.PriorityRs = 4 })},
		{name: "priority null", text: `{"name":"n","type":"validation","priorityHint":null,` + hooks + `}`, want: entry(nil)},
		{name: "priority too large", text: `{"name":"n","type":"validation","priorityHint":2147483648,` + hooks + `}`, reason: noteMalformed},
		{name: "priority a fraction", text: `{"name":"n","type":"validation","priorityHint":1.5,` + hooks + `}`, reason: noteMalformed},
		{name: "sink", text: `{"name":"n","type":"sink",` + hooks + `}`, want: entry(func(e *schemas.PlanEntry) { e.Type = schemas.TypeSink })},
		{name: "observability", text: `{"name":"n","type":"observability",` + hooks + `}`, want: entry(func(e *schemas.PlanEntry) { e.Type = schemas.TypeSink })},
		{name: "sink in audit mode", text: `{"name":"n","type":"sink","mode":"audit",` + hooks + `}`, reason: noteSinkInAudit},
		{name: "type unknown", text: `{"name":"n","type":"transform",` + hooks + `}`, reason: noteUnknownType},
		{name: "type missing", text: `{"name":"n",` + hooks + `}`, reason: noteMalformed},
		{name: "one hook object", text: `{"name":"n","type":"validation","hook":{"events":["tools/call"],"phase":"both"}}`, want: entry(func(e *schemas.PlanEntry) { e.Hooks = both })},
		{name: "hooks an object", text: `{"name":"n","type":"validation","hooks":{"events":["tools/call"],"phase":"request"}}`, want: entry(nil)},
		{name: "flat events and phase", text: `{"name":"n","type":"validation","events":["tools/call"],"phase":"both"}`, want: entry(func(e *schemas.PlanEntry) { e.Hooks = both })},
		{name: "a phase in the wildcard", text: `{"name":"n","type":"validation","events":["*/response"]}`, want: entry(func(e *schemas.PlanEntry) {
			e.Hooks = []schemas.Hook{{Events: []string{"*/response"}, Phase: schemas.PhaseResponse}}
		})},
		{name: "no phase", text: `{"name":"n","type":"validation","events":["tools/call"]}`, reason: noteMalformed},
		{name: "phase unknown", text: `{"name":"n","type":"validation","hooks":[{"events":["tools/call"],"phase":"during"}]}`, reason: noteMalformed},
		{name: "no hooks", text: `{"name":"n","type":"validation","hooks":[]}`, reason: noteMalformed},
		{name: "no events", text: `{"name":"n","type":"validation","hooks":[{"events":[],"phase":"request"}]}`, reason: noteMalformed},
		{name: "an event of wrong type", text: `{"name":"n","type":"validation","hooks":[{"events":[1],"phase":"request"}]}`, reason: noteMalformed},
		{name: "failOpen of wrong type", text: `{"name":"n","type":"validation","failOpen":"true",` + hooks + `}`, reason: noteMalformed},
		{name: "another case is another member", text: `{"name":"n","type":"validation","FailOpen":true,"Mode":"audit",` + hooks + `}`, want: entry(nil)},
		{name: "control characters in the name", text: `{"name":"a\nb","type":"validation",` + hooks + `}`, reason: noteMalformed},
		{name: "not an object", text: `7`, reason: noteMalformed},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got, err := parseList("h", "2025-11-25", jsonx.Value(`{"interceptors":[`+test.text+`]}`))
			if err != nil {
				t.Fatal(err)
			}
			var want listing
			if test.reason != "" {
				want.notes = []schemas.PlanNote{{Host: "h", Name: "n", Reason: test.reason}}
				if len(got.notes) == 1 && got.notes[0].Name == "" {
					want.notes[0].Name = ""
				}
			} else {
				want.entries = []schemas.PlanEntry{test.want}
			}
			if diff := cmp.Diff(want, got, cmp.AllowUnexported(listing{})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestListsThatAreNone(t *testing.T) {
	t.Parallel()
	for _, text := range []string{``, `null`, `{}`, `[]`, `{"interceptors":{}}`, `{"interceptors":[],"interceptors":[]}`, "{\"interceptors\":[\"\xff\"]}"} {
		if got, err := parseList("h", "2025-11-25", jsonx.Value(text)); err == nil {
			t.Errorf("%s is taken for the list %v", text, got)
		}
	}
	const one = `{"name":"n","type":"sink","events":"*","phase":"both"}`
	got, err := parseList("h", "2025-11-25", jsonx.Value(`{"interceptors":[`+one+`,`+one+`],"nextCursor":"c"}`))
	if err != nil || len(got.entries) != 1 || got.cursor != "c" || len(got.notes) != 1 || got.notes[0].Reason != noteDuplicate {
		t.Errorf("two of one name give %+v, %v", got, err)
	}
}

func TestCovers(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		wide, pattern string
		want          bool
	}{
		{"*", "tools/call", true},
		{"*", "*", true},
		{"*", "tools/*", true},
		{"*/request", "*", true},
		{"*", "*/request", true},
		{"*/response", "tools/call", false},
		{"tools/*", "tools/call", true},
		{"tools/*", "tools/*", true},
		{"tools/*", "tools/sub/*", true},
		{"tools/*", "*", false},
		{"tools/*", "*/request", false},
		{"tools/*", "prompts/get", false},
		{"tools/call", "tools/*", false},
		{"tools/call", "tools/call", true},
		{"tools/sub/*", "tools/*", false},
		{"tools/*", "tools", false},
	} {
		hooks := []schemas.Hook{{Events: []string{test.wide}, Phase: schemas.PhaseRequest}}
		if got := covers(hooks, test.pattern, schemas.PhaseRequest); got != test.want {
			t.Errorf("%s covers %s: %v, want %v", test.wide, test.pattern, got, test.want)
		}
		if covers(hooks, test.pattern, schemas.PhaseResponse) {
			t.Errorf("%s of the request covers %s of the response", test.wide, test.pattern)
		}
	}
}

func FuzzParseList(f *testing.F) {
	f.Add([]byte(`{"interceptors":[{"name":"n","type":"validation","mode":"enforce","priorityHint":3,"hook":{"events":["*"],"phase":"both"}}],"nextCursor":"c"}`))
	f.Add([]byte(`{"interceptors":[{"name":"n","type":"sink","events":"*/request"}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		page, err := parseList("h", "2025-11-25", data)
		if err != nil {
			return
		}
		for _, e := range page.entries {
			if e.Name == "" || len(e.Hooks) == 0 || e.Type == "" || e.Mode == "" || (e.Type == schemas.TypeSink && e.Mode == schemas.ModeAudit) {
				t.Errorf("entry in force: %+v", e)
			}
		}
		if _, err := jsonx.Marshal(page.entries); err != nil {
			t.Errorf("entries do not encode: %v", err)
		}
	})
}

// A mutation is only ever taken from an answer that says so, and a validator's no never becomes a pass.
func FuzzRead(f *testing.F) {
	f.Add([]byte(`{"type":"validation","valid":false,"severity":"error","messages":[{"message":"m","severity":"error"}]}`), true)
	f.Add([]byte(`{"mutation":{"modified":true},"payload":{"method":"tools/call","params":{}}}`), false)
	f.Add([]byte(`{"modified":false,"payload":{"a":"\ud83d"}}`), false)
	f.Fuzz(func(t *testing.T, data []byte, validation bool) {
		entry := schemas.PlanEntry{Name: "n", Type: schemas.TypeMutation, Envelope: len(data)%2 == 0}
		if validation {
			entry.Type = schemas.TypeValidation
		}
		m := message{event: "tools/call", phase: schemas.PhaseRequest, payload: jsonx.Value(`{"a":1}`)}
		a := NewInterceptor(entry, nil, nil).read(&m, data)
		switch {
		case validation && a.Finished() && (a.Valid == nil || (!*a.Valid && !a.Blocks && a.Severity == schemas.SeverityError)):
			t.Errorf("verdict %+v", a)
		case !validation && a.Finished() && (a.Modified == nil || *a.Modified != (a.Payload != nil)):
			t.Errorf("mutation %+v", a)
		case a.Payload != nil && a.Payload.Kind() != '{':
			t.Errorf("payload %s", a.Payload)
		}
		inv := schemas.Invocation{}
		a.Fill(&inv)
		if detail, ok := a.Detail(&inv); ok {
			if _, err := jsonx.Marshal(&detail); err != nil {
				t.Errorf("detail does not encode: %v", err)
			}
		}
		(&validationErrors{}).addAnswer("n", &a)
	})
}
