package deferred

import (
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"uuid"

	"github.com/google/go-cmp/cmp"

	"github.com/chaintrail/chaintrail/chain"
	"github.com/chaintrail/chaintrail/schemas"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
	"github.com/chaintrail/chaintrail/schemas/seal"
)

// planJob is the plan of a backend with hosts beside it.
func planJob(server, hosts string, entries ...schemas.PlanEntry) Job {
	item := schemas.EntryItem{Header: schemas.OpenHeader{Role: schemas.RoleHosts, Salt: seal.NewSalt()}, Data: []byte(hosts)}
	return Job{
		Event: schemas.Event{
			ID: uuid.NewV7(), Kind: schemas.KindPlan, Plan: &schemas.Plan{Server: server, Entries: entries},
			Open: []schemas.OpenRef{{
				Role: schemas.RoleHosts, Bytes: len(item.Data), Keep: schemas.KeepFull,
				Commitment: seal.Commit(seal.DomainTrue, item.Header.Salt, item.Data),
			}},
		},
		Items: func(context.Context) ([]schemas.EntryItem, error) { return []schemas.EntryItem{item}, nil },
	}
}

// farm is what the workers of a manager work with.
type farm struct {
	mu        sync.Mutex
	queues    map[string]*queue
	connected []string
	closed    int
	params    []string
	down      bool
	done      chan struct{} // of the last connection
}

func (f *farm) source(_ context.Context, entry schemas.PlanEntry) (Source, error) {
	return f.queue(entry.Name), nil
}

func (f *farm) queue(name string) *queue {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.queues[name] == nil {
		f.queues[name] = newQueue()
	}
	return f.queues[name]
}

type farmHost struct {
	farm *farm
	done chan struct{}
}

func (h farmHost) Done() <-chan struct{} { return h.done }

func (h farmHost) Call(ctx context.Context, name string, params jsonx.Value) (jsonx.Value, error) {
	h.farm.mu.Lock()
	h.farm.params = append(h.farm.params, string(params))
	h.farm.mu.Unlock()
	return recorded(ctx, name, params)
}

func (h farmHost) Close() error {
	h.farm.mu.Lock()
	defer h.farm.mu.Unlock()
	h.farm.closed++
	return nil
}

func (f *farm) connect(_ context.Context, ref schemas.HostRef) (chain.Conn, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if ref.URL == "" {
		return nil, ErrNotHere
	}
	if f.down {
		return nil, errors.New("connection refused")
	}
	f.connected = append(f.connected, ref.URL)
	f.done = make(chan struct{})
	return farmHost{f, f.done}, nil
}

func TestManager(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		plans, f, journal := newQueue(), &farm{queues: map[string]*queue{}}, &memory{}
		m := NewManager(ManagerOptions{
			Plans: plans, Sources: f.source, Connect: f.connect, Recorder: journal, Worker: testOptions(),
		})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- m.Run(ctx) }()
		expect := func(what string, want ...string) {
			t.Helper()
			synctest.Wait()
			got := m.Workers()
			slices.Sort(got)
			if diff := cmp.Diff(got, want); diff != "" {
				t.Errorf("workers %s (-got +want):\n%s", what, diff)
			}
		}
		named := func(host, name string) schemas.PlanEntry {
			return schemas.PlanEntry{Host: host, Name: name, Type: schemas.TypeSink}
		}
		withConfig := func(e schemas.PlanEntry, config string) schemas.PlanEntry {
			e.Config = sha256.Sum256([]byte(config))
			return e
		}
		audit := schemas.PlanEntry{Host: "h", Name: "v", Type: schemas.TypeValidation, Mode: schemas.ModeAudit}
		active := schemas.PlanEntry{Host: "h", Name: "a", Type: schemas.TypeValidation, Mode: schemas.ModeActive}

		plans.put(planJob("one", `[{"host":"h","url":"u1","configs":{"s":{"k":1}}}]`, withConfig(named("h", "s"), `{"k":1}`), audit, active, named("inprocess", "x")))
		expect("of sinks and audit mode", "h/s", "h/v")
		f.queue("s").put(newJob(named("h", "s"), "s", `{}`))
		synctest.Wait()
		if len(journal.all()) != 1 || !strings.Contains(f.params[0], `"config":{"k":1}`) {
			t.Errorf("%d results, params %v, want the configuration of the plan", len(journal.all()), f.params)
		}

		plans.put(planJob("one", `[{"host":"h","url":"u1","configs":{"s":{"k":2}}}]`, withConfig(named("h", "s"), `{"k":2}`), audit))
		expect("after another configuration", "h/s", "h/v")
		f.queue("s").put(newJob(named("h", "s"), "s", `{}`))
		synctest.Wait()
		if len(f.params) != 2 || !strings.Contains(f.params[1], `"config":{"k":2}`) {
			t.Errorf("params %v, want the new configuration", f.params)
		}
		if len(f.connected) != 3 || f.closed != 1 { // the worker of v is not renewed
			t.Errorf("connected %d times, closed %d", len(f.connected), f.closed)
		}

		plans.put(planJob("two", `[{"host":"h","url":"u1","configs":{"s":{"k":2}}}]`, withConfig(named("h", "s"), `{"k":2}`)))
		plans.put(planJob("one", `[]`))
		expect("that linger", "h/s", "h/v")
		time.Sleep(2 * DefaultLinger)
		expect("that plan two names", "h/s")

		f.mu.Lock()
		f.down = true
		f.mu.Unlock()
		plans.put(planJob("three", `[{"host":"g","url":"u2"}]`, named("g", "late")))
		expect("one of them waits", "g/late", "h/s")
		f.mu.Lock()
		f.down = false
		f.mu.Unlock()
		f.queue("late").put(newJob(named("g", "late"), "s", `{}`))
		time.Sleep(time.Minute)
		if len(journal.all()) != 3 {
			t.Errorf("%d results, want the third from the host that came back", len(journal.all()))
		}

		close(f.done) // the connection is lost
		f.mu.Lock()
		f.down = true
		f.mu.Unlock()
		f.queue("late").put(newJob(named("g", "late"), "s", `{}`))
		time.Sleep(time.Hour)
		if len(journal.all()) != 3 {
			t.Errorf("%d results while the host is away, want none more: a call that was not sent cannot fail", len(journal.all()))
		}
		f.mu.Lock()
		f.down = false
		f.mu.Unlock()
		time.Sleep(time.Minute)
		if all := journal.all(); len(all) != 4 || all[3].Event.Invocations[0].Attempt != 1 {
			t.Errorf("%d results, want the fourth after the host came back, at the first try", len(all))
		}

		plans.put(planJob("four", `[{"host":"g","url":"u2"}]`, withConfig(named("g", "secret"), `{"key":"s3cr3t"}`)))
		expect("without one whose configuration is not known here", "g/late", "h/s")

		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run = %v", err)
		}
		if f.closed != len(f.connected) {
			t.Errorf("%d hosts connected, %d closed", len(f.connected), f.closed)
		}
	})
}

func TestManagerGoesOnAfterBadPlans(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		entry := schemas.PlanEntry{Host: "h", Name: "s", Type: schemas.TypeSink}
		plans, f := newQueue(Job{}, planJob("one", `{"not":"a list"}`, entry), planJob("two", `[{"host":"h","url":"u"}]`, entry)), &farm{queues: map[string]*queue{}}
		m := NewManager(ManagerOptions{Plans: plans, Sources: f.source, Connect: f.connect, Recorder: &memory{}, Worker: testOptions()})
		done := make(chan error)
		go func() { done <- m.Run(t.Context()) }()
		synctest.Wait()
		if got := m.Workers(); !slices.Equal(got, []string{"h/s"}) {
			t.Errorf("workers %v, want that of the good plan", got)
		}
		close(plans.jobs)
		if err := <-done; !errors.Is(err, io.EOF) {
			t.Errorf("Run = %v at the end of its plans, want it to say so and to have ended its workers", err)
		}
	})
}
