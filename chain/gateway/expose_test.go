package gateway

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/chaintrail/chaintrail/chain"
	"github.com/chaintrail/chaintrail/chain/interceptor"
	"github.com/chaintrail/chaintrail/chain/wire"
	"github.com/chaintrail/chaintrail/schemas"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

// hostedSet has two servers with one name in common, which the first host's counts for.
func hostedSet(t *testing.T) *chain.Set {
	t.Helper()
	verdict := func(text string) interceptor.ValidatorFunc {
		return func(context.Context, *interceptor.Call) (interceptor.Verdict, error) {
			return interceptor.Deny(text), nil
		}
	}
	var hosts []chain.HostSpec
	for _, host := range []string{"first", "second"} {
		server, err := interceptor.New(nil,
			interceptor.Validator(interceptor.Descriptor{Name: "acme/both", Hooks: interceptor.OnRequest("tools/call")}, verdict(host)),
			interceptor.Validator(interceptor.Descriptor{Name: "acme/" + host, Hooks: interceptor.Both("prompts/get", "tools/call")}, verdict(host)))
		if err != nil {
			t.Fatal(err)
		}
		hosts = append(hosts, chain.HostSpec{Ref: schemas.HostRef{Host: host}, Connect: chain.Local(server)})
	}
	set, err := chain.NewSet(chain.SetOptions{Duplicates: chain.DuplicatesKeep, Hosts: hosts})
	if err != nil {
		t.Fatal(err)
	}
	if err := set.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return set
}

// TestExpose: a real client sees the interceptors of all servers as one server's, beside what the backend has.
func TestExpose(t *testing.T) {
	t.Parallel()
	set := hostedSet(t)
	eachWayWith(t, func(o *Options) { o.Rules.Expose = set.Directory() }, func(t *testing.T, w way) {
		t.Helper()
		cs := w.connect(t, nil)
		want := map[string]any{"supportedEvents": []any{"prompts/get", "tools/call"}}
		if diff := cmp.Diff(want, cs.InitializeResult().Capabilities.Extensions[interceptor.ExtensionName]); diff != "" {
			t.Errorf("capability (-want +got):\n%s", diff)
		}
		if cs.InitializeResult().Capabilities.Tools == nil {
			t.Error("the server's own capabilities are gone")
		}
		host, err := chain.Session(cs)(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for filter, want := range map[string][]string{
			`{}`:                      {"first/acme/both", "acme/first", "second/acme/both", "acme/second"},
			`{"event":"prompts/get"}`: {"acme/first", "acme/second"},
		} {
			list, err := host.Call(t.Context(), interceptor.MethodList, jsonx.Value(filter))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, names(list)); diff != "" {
				t.Errorf("list %s (-want +got):\n%s", filter, diff)
			}
		}
		answer, err := host.Call(t.Context(), interceptor.MethodInvoke, invocation("second/acme/both"))
		if err != nil {
			t.Fatal(err)
		}
		messages, _ := jsonx.Lookup(answer, "messages")
		if valid, _ := jsonx.Lookup(answer, "valid"); string(valid) != "false" || string(messages) != `[{"message":"second","severity":"error"}]` {
			t.Errorf("the invocation of the second server's gave %s", answer)
		}
		w.ledger.waitOutcome(t, interceptor.MethodInvoke, schemas.OutcomeAllowed)
		_, err = host.Call(t.Context(), interceptor.MethodInvoke, invocation("acme/nobody"))
		wantInvalid(t, err)
		w.ledger.waitOutcome(t, interceptor.MethodInvoke, schemas.OutcomeError)
	})
}

// TestNotExposed: without the setting nothing is added, and the backend answers.
func TestNotExposed(t *testing.T) {
	t.Parallel()
	eachWayWith(t, func(*Options) {}, func(t *testing.T, w way) {
		t.Helper()
		cs := w.connect(t, nil)
		if got := cs.InitializeResult().Capabilities.Extensions; len(got) > 0 {
			t.Errorf("extensions %v, want none", got)
		}
		host, err := chain.Session(cs)(t.Context())
		if err == nil {
			_, err = host.Call(t.Context(), interceptor.MethodList, nil)
		}
		if err == nil {
			t.Error("interceptors are listed")
		}
	})
}

func names(list jsonx.Value) (out []string) {
	all, _ := jsonx.Lookup(list, "interceptors")
	for descriptor := range jsonx.Elements(all) {
		name, _ := wire.MemberString(descriptor, "name")
		out = append(out, name)
	}
	return out
}

func invocation(name string) jsonx.Value {
	return jsonx.Value(`{"name":"` + name + `","event":"tools/call","phase":"request","payload":{"name":"t"}}`)
}

func wantInvalid(t *testing.T, err error) {
	t.Helper()
	var own *wire.RPCError
	var sdk *jsonrpc.Error
	switch {
	case errors.As(err, &own) && own.Code == wire.CodeInvalidParams:
	case errors.As(err, &sdk) && sdk.Code == wire.CodeInvalidParams:
	default:
		t.Errorf("got %v, want code %d", err, wire.CodeInvalidParams)
	}
}
