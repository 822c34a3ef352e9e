package interop_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/chaintrail/chaintrail/chain"
	"github.com/chaintrail/chaintrail/chain/chaintest"
	"github.com/chaintrail/chaintrail/chain/interceptor"
	"github.com/chaintrail/chaintrail/chain/wire"
	"github.com/chaintrail/chaintrail/schemas"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

const messagesFile = "testdata/messages-2026-07-28.txtar"

// TestExampleMessages: each published example arrives byte for byte, over every pair of transports,
// without a plan and with interceptors that look at everything and change nothing. What is no message
// by itself travels as params and as result.
func TestExampleMessages(t *testing.T) {
	t.Parallel()
	examples, err := txtar.ParseFile(messagesFile)
	if err != nil {
		t.Fatal(err)
	}
	if len(examples.Files) != 129 {
		t.Fatalf("%d examples, want 129", len(examples.Files))
	}
	for _, w := range ways() {
		for _, planned := range []bool{false, true} {
			mode := w.String()
			if planned {
				mode += ", with interceptors"
			}
			t.Run(mode, func(t *testing.T) {
				t.Parallel()
				c := newCourier(t, w, planned)
				passed := 0
				for _, file := range examples.Files {
					if t.Run(file.Name, func(t *testing.T) { c.carry(t, file.Name, bytes.TrimSpace(file.Data)) }) {
						passed++
					}
				}
				chaintest.Report(t, "example messages", mode, passed, len(examples.Files))
			})
		}
	}
}

// courier carries examples between one client and one server.
type courier struct {
	way    way
	peer   *peer
	client *client
	say    reply // what the server says next
}

func newCourier(t *testing.T, w way, planned bool) *courier {
	t.Helper()
	c := &courier{way: w}
	c.peer = newPeer(t, func(msg *wire.Message) reply {
		if msg.Kind != wire.KindRequest || msg.Method == "x/hang" {
			return reply{}
		}
		return c.say
	})
	b := c.peer.backend(t, w.back)
	if planned {
		b.Plan = planOf(t, chain.Config{}, chain.HostSpec{Ref: schemas.HostRef{Host: "h"}, Connect: chain.Local(onlookers(t))})
	}
	c.client = newWorld(t, w, b, nil).newClient(t, "")
	return c
}

// onlookers are interceptors on everything that change nothing.
func onlookers(t *testing.T) *interceptor.Server {
	t.Helper()
	server, err := interceptor.New(
		&interceptor.Options{Logger: slog.New(slog.DiscardHandler)},
		interceptor.Validator(interceptor.Descriptor{Name: "onlooker/validator", Hooks: interceptor.Both("*")},
			func(context.Context, *interceptor.Call) (interceptor.Verdict, error) { return interceptor.Pass(), nil }),
		interceptor.Mutator(interceptor.Descriptor{Name: "onlooker/mutator", Hooks: interceptor.Both("*")},
			func(context.Context, *interceptor.Call) (interceptor.Mutation, error) {
				return interceptor.Unmodified(), nil
			}),
	)
	if err != nil {
		t.Fatal(err)
	}
	return server
}

// carry takes one example through the gateway.
func (c *courier) carry(t *testing.T, name string, raw []byte) {
	t.Helper()
	if c.way != (way{overHTTP, overHTTP}) { // there a message is a line
		v := jsonx.Value(bytes.Clone(raw))
		if err := v.Compact(); err != nil {
			t.Fatal(err)
		}
		raw = v
	}
	msg, err := wire.Parse(raw, wire.Limits{})
	switch {
	case err != nil:
		c.request(t, []byte(`{"jsonrpc":"2.0","id":"as params","method":"x/example","params":`+string(raw)+`}`))
		c.answer(t, jsonx.Value(`"as result"`), []byte(`{"jsonrpc":"2.0","id":"as result","result":`+string(raw)+`}`))
	case msg.Kind == wire.KindRequest:
		c.request(t, raw)
	case msg.Kind == wire.KindNotification:
		c.notify(t, &msg)
		if !strings.HasPrefix(name, "Cancelled") { // it names a request of the client
			c.notified(t, &msg)
		}
	default:
		c.answer(t, msg.ID, raw)
	}
}

func (c *courier) request(t *testing.T, raw []byte) {
	t.Helper()
	msg, err := wire.Parse(raw, wire.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	c.say = say(string(wire.NewResponse(msg.ID, jsonx.Value("{}"))))
	answer := c.client.call(t, raw)
	c.peer.waitGot(t, raw)
	if diff := cmp.Diff(string(c.say.lines[0]), string(answer)); diff != "" {
		t.Errorf("answer (-want +got):\n%s", diff)
	}
}

func (c *courier) answer(t *testing.T, id jsonx.Value, raw []byte) {
	t.Helper()
	c.say = say(string(raw))
	answer := c.client.call(t, wire.NewRequest(id, "tools/call", jsonx.Value(`{"name":"t"}`)))
	if diff := cmp.Diff(string(raw), string(answer)); diff != "" {
		t.Errorf("answer (-want +got):\n%s", diff)
	}
}

// notify sends a notification of the client. A cancel is only forwarded when its request is open.
func (c *courier) notify(t *testing.T, msg *wire.Message) {
	t.Helper()
	if id, ok := wire.Member(msg.Params, "requestId"); ok && c.client.lines != nil {
		hanging := wire.NewRequest(id, "x/hang", nil)
		c.client.send(t, hanging)
		c.peer.waitGot(t, hanging)
	} else if ok && c.client.session != "" {
		other := *c.client
		hanging := wire.NewRequest(id, "x/hang", nil)
		done := make(chan struct{})
		go func() { defer close(done); other.post(t, hanging) }()
		defer func() { <-done }()
		c.peer.waitGot(t, hanging)
	}
	c.client.send(t, msg.Raw)
	c.peer.waitGot(t, msg.Raw)
}

// notified has the server send a notification before it answers.
func (c *courier) notified(t *testing.T, msg *wire.Message) {
	t.Helper()
	token, ok := wire.Member(msg.Params, "progressToken")
	if !ok {
		token = jsonx.Value("1")
	}
	call := []byte(`{"jsonrpc":"2.0","id":"carrier","method":"tools/call","params":{"name":"t","_meta":{"progressToken":` + string(token) + `}}}`)
	line := jsonx.Value(bytes.Clone(msg.Raw)) // events hold it on one line too
	if err := line.Compact(); err != nil {
		t.Fatal(err)
	}
	answer := `{"jsonrpc":"2.0","id":"carrier","result":{}}`
	c.say = say(string(line), answer)
	var got []string
	last := c.client.call(t, call)
	for _, raw := range append(c.client.before, last) {
		got = append(got, string(raw))
	}
	if diff := cmp.Diff([]string{string(line), answer}, got); diff != "" {
		t.Errorf("before the answer (-want +got):\n%s", diff)
	}
}
