package chain_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/chaintrail/chaintrail/chain"
	"github.com/chaintrail/chaintrail/chain/interceptor"
	"github.com/chaintrail/chaintrail/schemas"
)

// sessions are go-sdk sessions with a server that has the interceptors installed, over each transport.
func sessions(tb testing.TB, server *interceptor.Server, version string) map[string]*mcp.ClientSession {
	tb.Helper()
	install := func() *mcp.Server {
		s := mcp.NewServer(&mcp.Implementation{Name: "s", Version: "1"}, nil)
		if err := server.Install(s); err != nil {
			tb.Fatal(err)
		}
		return s
	}
	stateless := &mcp.StreamableHTTPOptions{Stateless: true}
	web := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return install() }, stateless))
	tb.Cleanup(web.Close)
	ours, theirs := mcp.NewInMemoryTransports()
	theirIn, ourOut, err := os.Pipe()
	if err != nil {
		tb.Fatal(err)
	}
	ourIn, theirOut, err := os.Pipe()
	if err != nil {
		tb.Fatal(err)
	}
	for _, transport := range []mcp.Transport{theirs, &mcp.IOTransport{Reader: theirIn, Writer: theirOut}} {
		session, err := install().Connect(tb.Context(), transport, nil)
		if err != nil {
			tb.Fatal(err)
		}
		tb.Cleanup(func() { _ = session.Wait() })
	}
	out := map[string]*mcp.ClientSession{}
	for way, transport := range map[string]mcp.Transport{
		"sdk in memory": ours, "sdk stdio": &mcp.IOTransport{Reader: ourIn, Writer: ourOut},
		"sdk http": &mcp.StreamableClientTransport{Endpoint: web.URL, HTTPClient: web.Client()},
	} {
		client := mcp.NewClient(&mcp.Implementation{Name: "c", Version: "1"}, nil)
		if err := chain.PrepareClient(client); err != nil {
			tb.Fatal(err)
		}
		session, err := client.Connect(tb.Context(), transport, &mcp.ClientSessionOptions{ProtocolVersion: version})
		if err != nil {
			tb.Fatalf("%s: %v", way, err)
		}
		tb.Cleanup(func() { _ = session.Close() })
		out[way] = session
	}
	return out
}

func validator(name string, compat *interceptor.Compat) interceptor.Interceptor {
	return interceptor.Validator(interceptor.Descriptor{Name: name, Hooks: interceptor.Both("*"), Compat: compat},
		func(_ context.Context, call *interceptor.Call) (interceptor.Verdict, error) {
			if strings.Contains(string(call.Payload), name) {
				return interceptor.Deny(name + " is named"), nil
			}
			return interceptor.Pass(), nil
		})
}

func hostOf(name string, connect func(context.Context) (chain.Conn, error)) chain.HostSpec {
	return chain.HostSpec{Ref: schemas.HostRef{Host: name}, Connect: connect}
}

// Any connected session can host interceptors, in both generations, beside other servers, and can be added later.
func TestSessionsHostInterceptors(t *testing.T) {
	t.Parallel()
	for _, version := range []string{"2025-11-25", "2026-07-28"} {
		server := serve(t, validator("old", &interceptor.Compat{MinProtocol: "2024-11-05", MaxProtocol: "2025-11-25"}),
			validator("new", &interceptor.Compat{MinProtocol: "2026-07-28"}), validator("any", nil))
		for way, session := range sessions(t, server, version) {
			t.Run(version+"/"+way, func(t *testing.T) {
				set := start(t, chain.SetOptions{Hosts: []chain.HostSpec{hostOf("first", chain.Local(serve(t, validator("local", nil))))}})
				if err := set.Add(t.Context(), hostOf("second", chain.Session(session))); err != nil {
					t.Fatal(err)
				}
				want, other := "any local old", "new"
				if version == "2026-07-28" {
					want, other = "any local new", "old"
				}
				plan := set.Current()
				if got := names(plan); got != want {
					t.Errorf("in force are %q, want %q", got, want)
				}
				record, _ := plan.Record()
				if diff := cmp.Diff([]schemas.PlanNote{{Host: "second", Name: other, Reason: "incompatible"}}, record.Ignored); diff != "" {
					t.Errorf("ignored (-want +got):\n%s", diff)
				}
				in := input("tools/call")
				in.Payload = []byte(`{"name":"any"}`)
				if res := plan.Run(t.Context(), in); res.Denial == nil || res.Denial.Interceptor != "any" || len(res.Invocations) != 3 {
					t.Errorf("the run ends with %+v", res)
				}
				if err := set.Add(t.Context(), hostOf("second", chain.Session(session))); !errors.Is(err, chain.ErrConfig) {
					t.Errorf("a second server of one name: %v", err)
				}
				if err := set.Remove(t.Context(), "second"); err != nil {
					t.Fatal(err)
				}
				if got := names(set.Current()); got != "local" {
					t.Errorf("after the removal %q is in force", got)
				}
				if err := set.Remove(t.Context(), "second"); !errors.Is(err, chain.ErrConfig) {
					t.Errorf("removed twice: %v", err)
				}
				if res := set.Current().Run(t.Context(), in); res.Denial != nil {
					t.Errorf("a removed interceptor denies: %+v", res.Denial)
				}
				if res := plan.Run(t.Context(), in); res.Status != schemas.StatusValidationFailed || res.Invocations[0].State != schemas.StateFailed {
					t.Errorf("a message of the plan before passes: %+v", res)
				}
			})
		}
	}
}

func TestDuplicates(t *testing.T) {
	t.Parallel()
	mutator := func(add string) interceptor.Interceptor {
		return interceptor.Mutator(interceptor.Descriptor{Name: "m", Hooks: interceptor.OnRequest("*")},
			func(_ context.Context, call *interceptor.Call) (interceptor.Mutation, error) {
				return interceptor.Mutation{Modified: true, Payload: append(call.Payload[:len(call.Payload)-1:len(call.Payload)-1], add...)}, nil
			})
	}
	hosts := func() []chain.HostSpec {
		b := hostOf("b", chain.Local(serve(t, mutator(`,"b":1}`), validator("only-b", nil))))
		b.Overrides = map[string]chain.Override{"m": {Priority: new(int32(-1))}}
		return []chain.HostSpec{hostOf("a", chain.Local(serve(t, mutator(`,"a":1}`)))), b}
	}
	for _, test := range []struct {
		how     chain.Duplicates
		names   string
		payload string
		ignored []schemas.PlanNote
	}{
		{chain.DuplicatesKeep, "a/m b/m only-b", `{"x":1,"b":1,"a":1}`, nil},
		{chain.DuplicatesFirst, "m only-b", `{"x":1,"a":1}`, []schemas.PlanNote{{Host: "b", Name: "m", Reason: "duplicate"}}},
	} {
		plan := planOf(t, chain.Config{Duplicates: test.how}, hosts()...)
		in := input("tools/call")
		in.Payload = []byte(`{"x":1}`)
		res := plan.Run(t.Context(), in)
		record, _ := plan.Record()
		if got := names(plan); got != test.names || string(res.Payload) != test.payload {
			t.Errorf("%s: %q in force make %s, want %q and %s", test.how, got, res.Payload, test.names, test.payload)
		}
		if diff := cmp.Diff(test.ignored, record.Ignored); diff != "" {
			t.Errorf("%s: ignored (-want +got):\n%s", test.how, diff)
		}
	}
	for _, how := range []chain.Duplicates{"", chain.DuplicatesRefuse, "all"} {
		set, err := chain.NewSet(chain.SetOptions{Duplicates: how, Hosts: hosts()})
		if err == nil {
			err = set.Start(t.Context())
		}
		if !errors.Is(err, chain.ErrConfig) {
			t.Errorf("%q: %v", how, err)
		}
	}
}

func TestNameFilter(t *testing.T) {
	t.Parallel()
	host := hostOf("h", chain.Local(serve(t, validator("acme/a", nil), validator("acme/b", nil), validator("other", nil))))
	host.Only = []string{"acme/*"}
	plan := planOf(t, chain.Config{}, host)
	record, _ := plan.Record()
	if got := names(plan); got != "acme/a acme/b" {
		t.Errorf("in force are %q", got)
	}
	if diff := cmp.Diff([]schemas.PlanNote{{Host: "h", Name: "other", Reason: "filtered"}}, record.Ignored); diff != "" {
		t.Errorf("ignored (-want +got):\n%s", diff)
	}
}
