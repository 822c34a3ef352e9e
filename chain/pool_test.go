package chain_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chaintrail/chaintrail/chain"
	"github.com/chaintrail/chaintrail/schemas"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

// counted is a server that counts its connections.
func counted(name string, opened, closed *int, mu *sync.Mutex, refuse error) chain.HostSpec {
	f := &flaky{list: descriptor("acme/"+name, "validation", "")}
	return chain.HostSpec{Ref: schemas.HostRef{Host: name}, Connect: func(ctx context.Context) (chain.Conn, error) {
		if refuse != nil {
			return nil, refuse
		}
		c, err := f.connect(ctx)
		mu.Lock()
		defer mu.Unlock()
		*opened++
		return &closeCounter{Conn: c, mu: mu, closed: closed}, err
	}}
}

type closeCounter struct {
	chain.Conn
	mu     *sync.Mutex
	closed *int
}

func (c *closeCounter) Close() error {
	c.mu.Lock()
	*c.closed++
	c.mu.Unlock()
	return c.Conn.Close()
}

// TestPool: servers are connected once however many ask, used again, let go when idle, and connected anew after Renew.
func TestPool(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var opened, closed, plans int
		pool := chain.NewPool(chain.PoolOptions{Idle: time.Minute, Hosts: 2, Set: chain.SetOptions{
			OnPlan: func(context.Context, *chain.Plan) error { plans++; return nil },
		}})
		a, b := counted("a", &opened, &closed, &mu, nil), counted("b", &opened, &closed, &mu, nil)
		counts := func(wantOpened, wantClosed int) {
			t.Helper()
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			if opened != wantOpened || closed != wantClosed {
				t.Errorf("opened %d, closed %d; want %d and %d", opened, closed, wantOpened, wantClosed)
			}
		}
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				plan, release, err := pool.Plan(t.Context(), nil, []chain.HostSpec{a, b, a})
				if err != nil {
					t.Error(err)
					return
				}
				defer release()
				if len(plan.Interceptors()) != 2 {
					t.Errorf("%d interceptors", len(plan.Interceptors()))
				}
				res := plan.Run(t.Context(), chain.Input{Event: "tools/call", Phase: schemas.PhaseRequest, Payload: jsonx.Value(`{}`)})
				if res.Denial != nil {
					t.Errorf("denied: %+v", res.Denial)
				}
			})
		}
		all.Wait()
		counts(2, 0)
		if plans != 1 {
			t.Errorf("%d plans, want 1", plans)
		}
		c := counted("c", &opened, &closed, &mu, nil)
		if _, _, err := pool.Plan(t.Context(), nil, []chain.HostSpec{c}); !errors.Is(err, chain.ErrPool) {
			t.Errorf("over the bound: %v", err)
		}
		_, release, err := pool.Plan(t.Context(), nil, []chain.HostSpec{a})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Minute)
		counts(2, 1) // a is in use
		pool.Renew()
		counts(2, 1)
		release()
		counts(2, 2)
		_, release, err = pool.Plan(t.Context(), nil, []chain.HostSpec{a})
		if err != nil {
			t.Fatal(err)
		}
		counts(3, 2)
		release()
		pool.Close()
		counts(3, 3)
		if _, _, err := pool.Plan(t.Context(), nil, []chain.HostSpec{a}); !errors.Is(err, chain.ErrPool) {
			t.Errorf("after Close: %v", err)
		}
	})
}

// TestPoolFails: what cannot be connected, merged or recorded is an error, and the next message tries again.
func TestPoolFails(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var opened, closed int
	recorded := errors.New("journal is full")
	pool := chain.NewPool(chain.PoolOptions{Set: chain.SetOptions{OnPlan: func(context.Context, *chain.Plan) error { return recorded }}})
	defer pool.Close()
	twin := counted("a", &opened, &closed, &mu, nil)
	twin.Ref.Host = "twin"
	for name, c := range map[string]struct {
		hosts []chain.HostSpec
		want  string
	}{
		"refused":      {[]chain.HostSpec{counted("x", &opened, &closed, &mu, errors.New("refused"))}, "refused"},
		"duplicates":   {[]chain.HostSpec{counted("a", &opened, &closed, &mu, nil), twin}, `"acme/a" is listed by servers`},
		"not recorded": {[]chain.HostSpec{counted("b", &opened, &closed, &mu, nil)}, "journal is full"},
	} {
		for try := range 2 {
			_, _, err := pool.Plan(t.Context(), nil, c.hosts)
			if !errors.Is(err, chain.ErrPool) || !strings.Contains(fmt.Sprint(err), c.want) {
				t.Errorf("%s, try %d: %v", name, try, err)
			}
		}
	}
	done, cancel := context.WithCancel(t.Context())
	cancel()
	slow := chain.HostSpec{Ref: schemas.HostRef{Host: "slow"}, Connect: func(ctx context.Context) (chain.Conn, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}}
	if _, _, err := pool.Plan(done, nil, []chain.HostSpec{slow}); !errors.Is(err, context.Canceled) {
		t.Errorf("a caller that gave up: %v", err)
	}
}
