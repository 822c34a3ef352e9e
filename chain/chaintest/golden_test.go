package chaintest_test

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/chaintrail/chaintrail/chain"
	"github.com/chaintrail/chaintrail/chain/chaintest"
	"github.com/chaintrail/chaintrail/chain/wire"
	"github.com/chaintrail/chaintrail/schemas"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

var update = flag.Bool("update", false, "write what happens into the golden files")

// golden is one case: servers as they answer, and messages that run through the plan.
type golden struct {
	ChainTimeoutMS int64            `json:"chainTimeoutMs"`
	DenyDetail     chain.DenyDetail `json:"denyDetail"`
	Duplicates     chain.Duplicates `json:"duplicates"`
	Servers        []goldenServer   `json:"servers"`
	Runs           []goldenRun      `json:"runs"`
}

type goldenServer struct {
	Name      string                 `json:"name"`
	Envelope  bool                   `json:"envelope"`
	TimeoutMS int64                  `json:"timeoutMs"`
	Configs   map[string]jsonx.Value `json:"configs"`
	Overrides map[string]struct {
		Mode      schemas.Mode   `json:"mode"`
		FailOpen  *bool          `json:"failOpen"`
		Priority  *int32         `json:"priority"`
		TimeoutMS int64          `json:"timeoutMs"`
		Hooks     []schemas.Hook `json:"hooks"`
		Envelope  *bool          `json:"envelope"`
	} `json:"overrides"`
	Interceptors []scripted `json:"interceptors"`
}

type goldenRun struct {
	Event     string            `json:"event"`
	Phase     schemas.Phase     `json:"phase"`
	Direction schemas.Direction `json:"direction"`
	Payload   jsonx.Value       `json:"payload"`
	Session   string            `json:"session"`
	User      string            `json:"user"`
}

// TestGolden runs what the fixtures of the working group lack, in process and over stdio. With
// -update the files are written anew: read the difference.
func TestGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/golden/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no golden files: %v", err)
	}
	for _, way := range []string{"in process", "stdio"} {
		passed := 0
		for _, file := range files {
			name := strings.TrimSuffix(filepath.Base(file), ".txtar")
			if t.Run(way+"/"+name, func(t *testing.T) { runGolden(t, file, way) }) {
				passed++
			}
		}
		chaintest.Report(t, "golden cases", way, passed, len(files))
	}
}

func runGolden(t *testing.T, file, way string) {
	t.Helper()
	archive, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if len(archive.Files) < 1 || archive.Files[0].Name != "case.json" {
		t.Fatalf("%s does not begin with case.json", file)
	}
	var g golden
	if err := jsonx.UnmarshalStrict(archive.Files[0].Data, &g); err != nil {
		t.Fatal(err)
	}
	got := g.run(t, way)
	if *update {
		archive.Files = append(archive.Files[:1], txtar.File{Name: "want", Data: []byte(got)})
		if err := os.WriteFile(file, txtar.Format(archive), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if len(archive.Files) != 2 {
		t.Fatalf("%s has no want: run with -update, and read it", file)
	}
	if diff := cmp.Diff(string(archive.Files[1].Data), got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// run returns everything that can be seen of the case, as text.
func (g *golden) run(t *testing.T, way string) string {
	t.Helper()
	opts := chain.SetOptions{DenyDetail: g.DenyDetail, Duplicates: g.Duplicates, ChainTimeout: time.Duration(g.ChainTimeoutMS) * time.Millisecond}
	servers := make([]*scriptServer, len(g.Servers))
	for i := range g.Servers {
		servers[i] = &scriptServer{list: g.Servers[i].Interceptors}
		opts.Hosts = append(opts.Hosts, g.Servers[i].host(servers[i].connect(t, way)))
	}
	set, err := chain.NewSet(opts)
	if err == nil {
		err = set.Start(t.Context())
	}
	if err != nil {
		return "refused: " + err.Error() + "\n"
	}
	t.Cleanup(func() {
		done, cancel := context.WithCancel(context.Background())
		cancel()
		_ = set.Run(done)
	})
	var out bytes.Buffer
	record, _ := set.Current().Record()
	for _, note := range record.Ignored {
		fmt.Fprintf(&out, "ignored %s: %s\n", note.Name, note.Reason)
	}
	for _, run := range g.Runs {
		fmt.Fprintf(&out, "== %s %s, %s\n", run.Event, run.Phase, run.Direction)
		in := chain.Input{
			Interception: [16]byte{1}, Event: run.Event, Phase: run.Phase, Direction: run.Direction, Payload: run.Payload,
			Context: chain.Context{Timestamp: time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC), SessionID: run.Session},
		}
		if run.User != "" {
			in.Context.Principal = chain.Principal{Type: "user", ID: run.User}
		}
		result := set.Current().Run(t.Context(), in)
		describe(&out, &in, &result)
		for _, s := range servers {
			s.describeCalls(&out)
		}
	}
	return out.String()
}

func (s *goldenServer) host(connect func(context.Context) (chain.Conn, error)) chain.HostSpec {
	spec := chain.HostSpec{
		Ref: schemas.HostRef{Host: s.Name, Configs: s.Configs}, Envelope: s.Envelope,
		Timeout: time.Duration(s.TimeoutMS) * time.Millisecond, Overrides: map[string]chain.Override{}, Connect: connect,
	}
	for name, o := range s.Overrides {
		spec.Overrides[name] = chain.Override{
			Mode: o.Mode, FailOpen: o.FailOpen, Priority: o.Priority, Hooks: o.Hooks, Envelope: o.Envelope,
			Timeout: time.Duration(o.TimeoutMS) * time.Millisecond,
		}
	}
	return spec
}

func describe(out *bytes.Buffer, in *chain.Input, r *chain.Result) {
	fmt.Fprintf(out, "status %s, %d errors, %d warnings, %d infos\n", r.Status, r.Errors, r.Warnings, r.Infos)
	if r.Modified {
		fmt.Fprintf(out, "payload %s\n", r.Payload)
	} else if !bytes.Equal(r.Payload, in.Payload) {
		fmt.Fprintf(out, "FAULT: not modified, but %s\n", r.Payload)
	}
	if d := r.Denial; d != nil {
		fmt.Fprintf(out, "denied at %s (%s, %s)\n", d.Interceptor, d.Type, d.Phase)
		fmt.Fprintf(out, "caller gets %s\n", wire.NewErrorAnswer(jsonx.Value("1"), &wire.RPCError{Code: d.Code, Message: d.Message, Data: d.Data}))
	}
	for i := range r.Invocations {
		inv := r.Invocations[i]
		inv.ID, inv.DurationUS = "", 0
		text, err := jsonx.Marshal(&inv)
		if err != nil {
			text = []byte(err.Error())
		}
		fmt.Fprintf(out, "invocation %s\n", bytes.Replace(text, []byte(`"id":"",`), nil, 1))
	}
	for _, d := range r.Details {
		fmt.Fprintf(out, "detail of %s: error %q messages %s suggestions %s info %s\n", d.Interceptor, d.Error, d.Messages, d.Suggestions, d.Info)
	}
	for _, s := range r.Steps {
		fmt.Fprintf(out, "step %d %s\n", s.Index, s.Payload)
	}
}
