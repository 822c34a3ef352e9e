package builtin

import (
	"fmt"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/chaintrail/chaintrail/chain/interceptor"
	"github.com/chaintrail/chaintrail/chain/wire"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Made up, and put together here so that no scanner of sources takes it for real.
var github = "ghp" + "_" + strings.Repeat("aB3", 12)

// server serves one built-in.
func server(tb testing.TB, name, config, stateDir string) *interceptor.Server {
	tb.Helper()
	o := &Options{Version: "1", StateDir: stateDir}
	if config != "" {
		o.Config = jsonx.Value(config)
	}
	made, err := New(Namespace+name, o)
	if err != nil {
		tb.Fatal(err)
	}
	s, err := interceptor.New(nil, made)
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

// params writes the params of an invocation.
func params(name, event, phase, payload, context string) jsonx.Value {
	if context == "" {
		context = "{}"
	}
	return fmt.Appendf(nil, `{"name":%q,"event":%q,"phase":%q,"payload":%s,"context":%s}`, Namespace+name, event, phase, payload, context)
}

// step is one invocation with a summary of its result: pass, a severity and the first message, or the payload.
type step struct{ event, phase, payload, context, want string }

func play(t *testing.T, s *interceptor.Server, name string, steps []step) {
	t.Helper()
	for i, st := range steps {
		if got := ask(t, s, name, st); got != st.want {
			t.Errorf("step %d of %s: %s %s gives\n  %s\nwant\n  %s", i, name, st.phase, st.payload, got, st.want)
		}
	}
}

func ask(t *testing.T, s *interceptor.Server, name string, st step) string {
	t.Helper()
	result, err := s.Invoke(t.Context(), params(name, st.event, st.phase, st.payload, st.context))
	if err != nil {
		if rpc, ok := err.(*wire.RPCError); ok { //nolint:errorlint // what the server returns
			return "error " + string(rpc.Data)
		}
		return "error " + err.Error()
	}
	if valid, ok := wire.Member(result, "valid"); ok && string(valid) == "true" {
		return "pass"
	} else if ok {
		severity, _ := wire.MemberString(result, "severity")
		messages, _ := wire.Member(result, "messages")
		for first := range jsonx.Elements(messages) {
			text, _ := wire.MemberString(first, "message")
			path, _ := wire.MemberString(first, "path")
			if path != "" {
				path += ": "
			}
			return severity + " " + path + text
		}
		return severity
	}
	if modified, _ := wire.Member(result, "modified"); string(modified) != "true" {
		return "unmodified"
	}
	payload, _ := wire.Member(result, "payload")
	return string(payload)
}
