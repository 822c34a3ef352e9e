package main

import (
	"context"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/chaintrail/chaintrail/chain"
	"github.com/chaintrail/chaintrail/chain/interceptor"
	"github.com/chaintrail/chaintrail/schemas"
)

func TestHealthOfInterceptors(t *testing.T) {
	t.Parallel()
	server, err := interceptor.New(nil, interceptor.Validator(
		interceptor.Descriptor{Name: "acme/dlp", Hooks: interceptor.OnRequest("*")},
		func(context.Context, *interceptor.Call) (interceptor.Verdict, error) { return interceptor.Pass(), nil },
	))
	if err != nil {
		t.Fatal(err)
	}
	n := &node{}
	answer := func() string {
		w := httptest.NewRecorder()
		n.servePlan(w, nil)
		return w.Body.String()
	}
	if got := answer(); !strings.Contains(got, "no plan") {
		t.Errorf("before any plan: %s", got)
	}
	f := &force{breakers: chain.NewBreakers(chain.BreakerConfig{})}
	f.set, err = chain.NewSet(chain.SetOptions{
		Breakers: f.breakers,
		Hosts:    []chain.HostSpec{{Ref: schemas.HostRef{Host: "h"}, Connect: chain.Local(server)}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := f.set.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	n.force.Store(f)
	if got := answer(); !strings.Contains(got, `"breaker": "closed"`) || !strings.Contains(got, "acme/dlp") {
		t.Errorf("got %s", got)
	}
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(newBreakerMetrics(f.breakers.States))
	families, err := registry.Gather()
	if err != nil || len(families) != 3 {
		t.Fatalf("%d families, error %v; want 3", len(families), err)
	}
	for _, m := range families {
		if one := m.GetMetric(); len(one) != 1 || len(one[0].GetLabel()) != 2 {
			t.Errorf("%s: %v", m.GetName(), one)
		}
	}
}
