package interop_test

import (
	"context"
	"testing"

	"github.com/chaintrail/chaintrail/chain"
	"github.com/chaintrail/chaintrail/chain/wire"
	"github.com/chaintrail/chaintrail/schemas"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

// TestScope: which methods a hook on everything sees, over every pair of transports.
func TestScope(t *testing.T) {
	t.Parallel()
	for _, w := range ways() {
		t.Run(w.String(), func(t *testing.T) {
			t.Parallel()
			d := &drawn{members: []member{{name: "v", kind: "validation", phase: "both", event: "*", acts: "pass"}}, calls: map[string]int{}}
			p := newPeer(t, func(msg *wire.Message) reply {
				if msg.Kind != wire.KindRequest {
					return reply{}
				}
				return goodAnswer(string(msg.ID))
			})
			b := p.backend(t, w.back)
			b.Plan = planOf(t, chain.Config{}, chain.HostSpec{
				Ref: schemas.HostRef{Host: "h"}, Connect: func(context.Context) (chain.Conn, error) { return d, nil },
			})
			c := newWorld(t, w, b, nil).newClient(t, "s") // initialize and notifications/initialized are in here
			for _, method := range []string{"ping", "server/discover", "subscriptions/listen", "interceptors/list", "interceptor/invoke", "interceptors/invoke"} {
				c.call(t, wire.NewRequest(jsonx.Value(`"`+method+`"`), method, nil))
			}
			note := wire.NewNotification("notifications/progress", jsonx.Value(`{"progressToken":1,"progress":1}`))
			c.send(t, note)
			p.waitGot(t, note)
			if n := d.count("v"); n != 0 {
				t.Errorf("called %d times for what is never intercepted", n)
			}
			seen := []string{
				"tools/list", "tools/call", "prompts/list", "prompts/get", "resources/list", "resources/read", "resources/subscribe",
				"resources/unsubscribe", "resources/templates/list", "completion/complete", "logging/setLevel", "tasks/get", "acme/own",
			}
			for i, method := range seen {
				c.call(t, wire.NewRequest(jsonx.Value(`"`+method+`"`), method, jsonx.Value(`{}`)))
				if n := d.count("v"); n != 2*(i+1) {
					t.Errorf("%s: called %d times altogether, want %d: once in each phase", method, n, 2*(i+1))
				}
			}
		})
	}
}

func (d *drawn) count(name string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.calls[name]
}
