package interop_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chaintrail/chaintrail/chain"
	"github.com/chaintrail/chaintrail/chain/interceptor"
	"github.com/chaintrail/chaintrail/chain/wire"
	"github.com/chaintrail/chaintrail/schemas"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

// hugeAnswer is how much the worst sink answers.
const hugeAnswer = 100 << 20

// TestDeferredMisbehaves: sinks and audit-mode interceptors that answer garbage, break, hang and send
// 100 MB are invoked, as deferred work does, while calls go through the gateway: callers and server see
// what they see without them, and each invocation ends with a state of its own.
func TestDeferredMisbehaves(t *testing.T) {
	t.Parallel()
	stop := make(chan struct{})
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { badSink(w, r, stop) }))
	t.Cleanup(web.Close)
	t.Cleanup(func() { close(stop) })
	plan := planOf(t, chain.Config{}, chain.HostSpec{
		Ref: schemas.HostRef{Host: "bad"}, Timeout: 10 * time.Second, Overrides: map[string]chain.Override{"hang": {Timeout: 100 * time.Millisecond}},
		Connect: chain.Remote(func(context.Context) (wire.Conn, error) { return wire.NewHTTPClient(web.URL, nil), nil }, nil),
	})
	p := newPeer(t, func(msg *wire.Message) reply { return goodAnswer(string(msg.ID)) })
	b := p.backend(t, overHTTP)
	b.Plan = plan
	c := newWorld(t, way{overHTTP, overHTTP}, b, nil).newClient(t, "s")
	want := map[string]schemas.InvocationState{
		"garbage": schemas.StateMalformed, "breaks": schemas.StateFailed, "hang": schemas.StateTimeout, "huge": schemas.StateFailed, "denies": schemas.StateFinished,
	}
	var work sync.WaitGroup
	for _, i := range plan().(*chain.Plan).Interceptors() {
		if !i.Deferred() {
			t.Errorf("%s is not deferred", i.Entry().Name)
		}
		work.Go(func() {
			in := chain.Input{Event: "tools/call", Phase: schemas.PhaseRequest, Direction: schemas.Sending, Payload: jsonx.Value(`{}`)}
			if a := i.Invoke(t.Context(), in, nil); a.State != want[i.Entry().Name] {
				t.Errorf("%s: state %s (%s), want %s", i.Entry().Name, a.State, a.Error, want[i.Entry().Name])
			}
		})
	}
	for range 20 {
		checkGood(t, c, "beside")
	}
	work.Wait()
	checkGood(t, c, "after")
	for _, raw := range p.requests() {
		if !strings.HasSuffix(raw, `,"method":"tools/call","params":{"name":"t"}}`) {
			t.Errorf("at the server there is %s", raw)
		}
	}
}

func badSink(w http.ResponseWriter, r *http.Request, stop <-chan struct{}) {
	var body strings.Builder
	if _, err := io.Copy(&body, r.Body); err != nil {
		return
	}
	msg, err := wire.Parse([]byte(body.String()), wire.Limits{})
	if err != nil || msg.Kind != wire.KindRequest {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	w.Header().Set("Content-Type", wire.ContentJSON)
	result := func(text string) { _, _ = w.Write(wire.NewResponse(msg.ID, jsonx.Value(text))) }
	name, _ := wire.MemberString(msg.Params, "name")
	switch {
	case msg.Method == wire.MethodInitialize:
		result(hello)
	case msg.Method == interceptor.MethodList:
		sink := func(name string) string {
			return `{"name":"` + name + `","type":"sink","hooks":[{"events":["*"],"phase":"both"}]}`
		}
		result(`{"interceptors":[` + sink("garbage") + `,` + sink("breaks") + `,` + sink("hang") + `,` + sink("huge") +
			`,{"name":"denies","type":"validation","mode":"audit","hooks":[{"events":["*"],"phase":"both"}]}]}`)
	case msg.Method != interceptor.MethodInvoke:
		_, _ = w.Write(wire.NewErrorAnswer(msg.ID, &wire.RPCError{Code: wire.CodeMethodNotFound, Message: "no"}))
	case name == "garbage":
		result(`{"recorded":"perhaps"}`)
	case name == "breaks":
		cutHTTP(w)
	case name == "hang":
		select {
		case <-stop:
		case <-r.Context().Done():
		}
	case name == "huge":
		chunk := []byte(strings.Repeat("x", 1<<20))
		_, _ = w.Write([]byte(`{"jsonrpc":"2.0","id":` + string(msg.ID) + `,"result":{"recorded":true,"info":"`))
		for range hugeAnswer >> 20 {
			if _, err := w.Write(chunk); err != nil {
				return
			}
		}
	default:
		result(`{"valid":false,"severity":"error"}`)
	}
}
