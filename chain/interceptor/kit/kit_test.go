package kit_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/chaintrail/chaintrail/chain"
	"github.com/chaintrail/chaintrail/chain/interceptor"
	"github.com/chaintrail/chaintrail/chain/interceptor/kit"
	"github.com/chaintrail/chaintrail/chain/wire"
	"github.com/chaintrail/chaintrail/schemas"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// redactor changes, adds and takes out.
func redactor() interceptor.Interceptor {
	return interceptor.Mutator(interceptor.Descriptor{Name: "acme/redactor", Hooks: interceptor.Both("*")},
		func(_ context.Context, call *interceptor.Call) (interceptor.Mutation, error) {
			if call.Phase == schemas.PhaseResponse {
				return interceptor.Unmodified(), nil
			}
			var p map[string]jsonx.Value
			if err := call.Decode(&p); err != nil {
				return interceptor.Mutation{}, err
			}
			delete(p, "token")
			if p["text"] != nil {
				p["text"], p["safe"] = jsonx.Value(strings.ReplaceAll(string(p["text"]), "secret", "[gone]")), jsonx.Value("true")
			}
			out, err := jsonx.MarshalDeterministic(p)
			return interceptor.Modified(out), err
		})
}

func counter() interceptor.Interceptor {
	seen := 0
	return interceptor.Sink(interceptor.Descriptor{Name: "acme/counter", Hooks: interceptor.Both("*")},
		func(context.Context, *interceptor.Call) (interceptor.Receipt, error) {
			if seen++; seen == 3 {
				return interceptor.Receipt{}, errors.New("three is too much")
			}
			r := interceptor.Recorded()
			r.Metrics = map[string]float64{"seen": float64(seen)}
			r.Info = jsonx.Value(`{"note": "a sink keeps its state"}`)
			return r, nil
		})
}

func TestMutatorAndSink(t *testing.T) {
	t.Parallel()
	kit.Run(t, redactor(), "testdata/redactor*")
	kit.Run(t, counter(), "testdata/counter.txtar")
}

func write(t *testing.T, name, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// What is wrong is told with its place.
func TestFaults(t *testing.T) {
	t.Parallel()
	good := "-- payload.json --\n{\"name\": \"x\"}\n"
	for _, c := range []struct{ name, file, text, want string }{
		{"no want", "a.txtar", good, "a.txtar: step 1: has no want: run go test with -update"},
		{"wrong want", "a.txtar", good + "-- want --\nvalid true\n", "a.txtar: step 1: not the wanted answer (-want +got)"},
		{"second of two", "a.txtar", good + "-- want --\nvalid false error\nerror arguments.path \"outside of the house\"\n" + good, "step 2: has no want"},
		{"nothing", "a.txtar", "", `has nothing for the interceptor "acme/guard"`},
		{"unknown section", "a.txtar", "-- x --\n", "section 1, x: there are call.json, payload.json and want"},
		{"want alone", "a.txtar", "-- want --\n", "section 1: want does not stand behind a payload.json"},
		{"unknown key", "a.txtar", "-- call.json --\n{\"evnt\":\"x\"}\n", "section 1, call.json: "},
		{"no JSON", "a.txtar", "-- payload.json --\n{\n", "section 1, payload.json: not strict JSON"},
		{"duplicates", "a.json", `{"name":"a","name":"b"}`, "a.json: not strict JSON"},
		{"no params want", "a.json", `{"name":"acme/guard"}`, "has no want"},
		{"recording of another", "a.jsonl", `{"params":{"name":"x"},"result":{}}`, "has nothing for"},
		{"recording is broken", "a.jsonl", "\n{", "line 2: "},
		{"recorded nonsense", "a.jsonl", `{"params":{"name":"acme/guard"},"result":{"type":"x"}}`, `line 1: result has the type "x"`},
		{"other kind", "a.yaml", "", "is neither .txtar nor .json nor .jsonl"},
	} {
		err := kit.Check(t.Context(), guard(), write(t, c.file, c.text))
		if err == nil || !strings.Contains(strings.ReplaceAll(err.Error(), "\u00a0", " "), c.want) {
			t.Errorf("%s: got %v, want %q", c.name, err, c.want)
		}
	}
}

func TestUpdate(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ file, text string }{
		{"a.txtar", "Comment.\n-- payload.json --\n{}\n-- want --\nold\n-- call.json --\n{\"event\":\"x\"}\n-- payload.json --\n{}\n"},
		{"a.json", `{"name":"acme/guard","event":"tools/call","phase":"request","payload":{}}`},
	} {
		file := write(t, c.file, c.text)
		if err := kit.Check(t.Context(), guard(), file); err == nil {
			t.Errorf("%s passes before the update", c.file)
		}
		if err := kit.Update(t.Context(), guard(), file); err != nil {
			t.Errorf("%s: %v", c.file, err)
		}
		if err := kit.Check(t.Context(), guard(), file); err != nil {
			t.Errorf("%s: %v", c.file, err)
		}
		if text, err := os.ReadFile(file); err != nil || !strings.HasPrefix(string(text), c.text[:8]) {
			t.Errorf("%s: now %q, %v", c.file, text, err)
		}
	}
}

// TestRunFails runs tests that have to fail, in a process of their own.
func TestRunFails(t *testing.T) {
	t.Parallel()
	if dir := os.Getenv("KIT_TEST_FILES"); dir != "" {
		kit.Run(t, guard(), filepath.Join(dir, "*"))
		return
	}
	for _, c := range []struct{ text, want string }{
		{"-- payload.json --\n{}\n-- want --\nvalid true\n", "not the wanted answer"},
		{"", "no file matches"},
	} {
		dir := t.TempDir()
		if c.text != "" {
			dir = filepath.Dir(write(t, "wrong.txtar", c.text))
		}
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestRunFails$")
		cmd.Env = append(os.Environ(), "KIT_TEST_FILES="+dir)
		out, err := cmd.CombinedOutput()
		if _, failed := errors.AsType[*exec.ExitError](err); !failed || !strings.Contains(string(out), c.want) {
			t.Errorf("got %v, %s", err, out)
		}
	}
}

// record runs messages through a plan whose server is recorded.
func record(t *testing.T, out *bytes.Buffer, list ...interceptor.Interceptor) *kit.Recorder {
	t.Helper()
	server, err := interceptor.New(nil, list...)
	if err != nil {
		t.Fatal(err)
	}
	recorder := kit.NewRecorder(out)
	set, err := chain.NewSet(chain.SetOptions{Hosts: []chain.HostSpec{{
		Ref:     schemas.HostRef{Host: "h", Configs: map[string]jsonx.Value{"acme/guard": jsonx.Value(`{"roots":["/home/"]}`)}},
		Connect: recorder.Connect(chain.Local(server)),
	}}})
	if err == nil {
		err = set.Start(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, payload := range []string{
		`{"name":"read","arguments":{"path":"/etc"}}`, "{\n \"name\":\"read\",\"arguments\":{\"path\":\"/home/ann\"},\"text\":\"a secret\"}", `[]`,
	} {
		set.Current().Run(t.Context(), chain.Input{
			Interception: [16]byte{1}, Event: "tools/call", Phase: schemas.PhaseRequest, Direction: schemas.Sending,
			Payload: jsonx.Value(payload), Context: chain.Context{Timestamp: time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)},
		})
	}
	done, cancel := context.WithCancel(t.Context())
	cancel()
	_ = set.Run(done)
	return recorder
}

// A recording of a plan replays against the same interceptors, and shows what another one does otherwise.
func TestRecordAndReplay(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	if err := record(t, &out, guard(), redactor()).Err(); err != nil {
		t.Fatal(err)
	}
	if f := flag.Lookup("update"); f.Value.String() == "true" {
		if err := os.WriteFile("testdata/recorded.jsonl", out.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	file := write(t, "recorded.jsonl", out.String())
	for _, i := range []interceptor.Interceptor{guard(), redactor()} {
		if err := kit.Check(t.Context(), i, file); err != nil {
			t.Error(err)
		}
	}
	other := interceptor.Mutator(interceptor.Descriptor{Name: "acme/redactor", Hooks: interceptor.Both("*")},
		func(context.Context, *interceptor.Call) (interceptor.Mutation, error) {
			return interceptor.Unmodified(), nil
		})
	if err := kit.Check(t.Context(), other, file); !errors.Is(err, kit.ErrMismatch) {
		t.Errorf("another interceptor gives %v", err)
	}
	committed, err := os.ReadFile("testdata/recorded.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	if got, want := bytes.Count(out.Bytes(), []byte("\n")), bytes.Count(committed, []byte("\n")); got != want {
		t.Errorf("%d invocations were recorded, want %d", got, want)
	}
}

func TestReplayOfAFile(t *testing.T) {
	t.Parallel()
	kit.Run(t, guard(), "testdata/recorded.jsonl")
	kit.Run(t, redactor(), "testdata/recorded.jsonl")
}

// The same files hold for a server over HTTP, and what it is asked there is recorded as well.
func TestServer(t *testing.T) {
	t.Parallel()
	server, err := interceptor.New(nil, guard(), redactor())
	if err != nil {
		t.Fatal(err)
	}
	listener := httptest.NewServer(server.HTTPHandler())
	t.Cleanup(listener.Close)
	var out bytes.Buffer
	recorder := kit.NewRecorder(&out)
	connect := recorder.Connect(chain.Remote(func(context.Context) (wire.Conn, error) {
		return wire.NewURLClient(listener.URL, nil), nil
	}, nil))
	conn, err := connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	kit.RunServer(t, conn, "acme/guard", "testdata/guard*")
	kit.RunServer(t, conn, "acme/redactor", "testdata/re*")
	if err := errors.Join(conn.Close(), recorder.Err()); err != nil {
		t.Error(err)
	}
	if err := kit.Check(t.Context(), guard(), write(t, "http.jsonl", out.String())); err != nil {
		t.Error(err)
	}
}

type full struct{ left int }

func (f *full) Write(b []byte) (int, error) {
	if f.left--; f.left < 0 {
		return 0, errors.New("no space left")
	}
	return len(b), nil
}

func TestRecorderTellsThatItIsNotWhole(t *testing.T) {
	t.Parallel()
	recorder := kit.NewRecorder(&full{left: 1})
	server, err := interceptor.New(nil, counter())
	if err != nil {
		t.Fatal(err)
	}
	conn, err := recorder.Connect(chain.Local(server))(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for n := range 2 {
		if _, err := conn.Call(t.Context(), interceptor.MethodInvoke, jsonx.Value(
			`{"name":"acme/counter","event":"x","phase":"request","payload":{}}`)); err != nil {
			t.Fatal(err)
		}
		if err := recorder.Err(); (err != nil) != (n == 1) {
			t.Errorf("after %d calls: %v", n+1, err)
		}
	}
	if err := conn.Close(); err != nil {
		t.Error(err)
	}
}

// Any file gives an error or an answer.
func FuzzCheck(f *testing.F) {
	for _, name := range []string{"guard.txtar", "guard-params.json", "recorded.jsonl"} {
		data, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(filepath.Ext(name), data)
	}
	f.Fuzz(func(t *testing.T, ext string, data []byte) {
		if ext != ".txtar" && ext != ".json" && ext != ".jsonl" {
			return
		}
		_ = kit.Check(t.Context(), redactor(), write(t, fmt.Sprint("f", ext), string(data)))
	})
}
