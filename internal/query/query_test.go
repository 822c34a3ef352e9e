package query_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/chaintrail/chaintrail/internal/engine/enginetest"
	"github.com/chaintrail/chaintrail/internal/query"
	"github.com/chaintrail/chaintrail/schemas"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
	"github.com/chaintrail/chaintrail/sinks"
	"github.com/chaintrail/chaintrail/sinks/clickhouse"
	"github.com/chaintrail/chaintrail/sinks/sinktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// site is a store with two streams that writers fill.
type site struct {
	reader       *query.Reader
	events, open *sinktest.Stream
	writers      []*clickhouse.Writer
}

func newSite(t *testing.T) *site {
	t.Helper()
	conn, err := clickhouse.Open(enginetest.Start(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if _, err := clickhouse.Migrate(t.Context(), conn, nil); err != nil {
		t.Fatal(err)
	}
	s := &site{reader: query.New(conn), events: sinktest.NewStream("CHAINTRAIL_0"), open: sinktest.NewStream("CHAINTRAIL_OPEN_0")}
	ctx, cancel := context.WithCancel(t.Context())
	var done []chan error
	for _, one := range []struct {
		content clickhouse.Content
		stream  *sinktest.Stream
	}{{clickhouse.ContentEvents, s.events}, {clickhouse.ContentOpen, s.open}} {
		w, err := clickhouse.NewWriter(clickhouse.Config{
			Content: one.content, Source: &sinktest.Source{Stream: one.stream}, Cursors: &sinktest.Cursors{},
			Letters: &sinktest.Letters{}, Conn: conn, Options: &sinks.Options{Linger: -1},
		})
		if err != nil {
			t.Fatal(err)
		}
		stopped := make(chan error, 1)
		go func() { stopped <- w.Run(ctx) }()
		done = append(done, stopped)
		s.writers = append(s.writers, w)
	}
	t.Cleanup(func() {
		cancel()
		for _, stopped := range done {
			if err := <-stopped; err != nil {
				t.Errorf("writer: %v", err)
			}
		}
	})
	return s
}

// stored waits until everything is stored.
func (s *site) stored(t *testing.T) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for s.writers[0].Stats().Position < s.events.Last() || s.writers[1].Stats().Position < s.open.Last() {
		select {
		case <-tick.C:
		case <-t.Context().Done():
			t.Fatal("not stored")
		}
	}
}

func (s *site) call(t *testing.T, w *sinktest.Writer, tool, principal string, outcome schemas.Outcome, body string) *sinktest.Call {
	t.Helper()
	c := w.Call(t, tool, principal, outcome, body)
	s.events.Add(c.Events...)
	s.open.Add(c.Items...)
	return c
}

func names(calls map[string]*sinktest.Call, found []query.Exchange) []string {
	var out []string
	for _, e := range found {
		for name, c := range calls {
			if c.Exchange == e.ID {
				out = append(out, name)
			}
		}
	}
	return out
}

func TestSearch(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	w := sinktest.NewWriter()
	calls := map[string]*sinktest.Call{
		"first":  s.call(t, w, "echo", "ann", schemas.OutcomeAllowed, `{"text":"The Quick brown fox, \"quoted\""}`),
		"second": s.call(t, w, "delete", "bob", schemas.OutcomeDenied, `{"path":"/Größe/secret_key"}`),
	}
	w.Tenant = "other"
	calls["third"] = s.call(t, w, "echo", "bob' OR '1'='1", schemas.OutcomeError, `{"text":"100% _sure_ \\ '; DROP TABLE events"}`)
	s.stored(t)
	middle := calls["second"].Outcome.Time.Std()
	for _, test := range []struct {
		name   string
		filter query.Filter
		want   []string
	}{
		{"all, newest first", query.Filter{}, []string{"third", "second", "first"}},
		{"limit", query.Filter{Limit: 1}, []string{"third"}},
		{"since", query.Filter{Since: middle}, []string{"third", "second"}},
		{"until", query.Filter{Until: middle}, []string{"first"}},
		{"tenant", query.Filter{Tenant: "acme"}, []string{"second", "first"}},
		{"tool", query.Filter{Tool: "echo"}, []string{"third", "first"}},
		{"principal", query.Filter{Principal: "bob"}, []string{"second"}},
		{"principal by pseudonym", query.Filter{Principal: "p-ann"}, []string{"first"}},
		{"principal with quotes", query.Filter{Principal: "bob' OR '1'='1"}, []string{"third"}},
		{"injection finds nothing", query.Filter{Principal: "x' OR 1=1 -- "}, nil},
		{"placeholder in a value", query.Filter{Principal: "?", Tool: "$1"}, nil},
		{"outcome", query.Filter{Outcome: schemas.OutcomeDenied}, []string{"second"}},
		{"interceptor", query.Filter{Interceptor: "guard", Tenant: "other"}, []string{"third"}},
		{"unknown interceptor", query.Filter{Interceptor: "nobody"}, nil},
		{"session", query.Filter{Session: "session-1", Since: middle}, []string{"third", "second"}},
		{"exchange", query.Filter{Exchange: calls["first"].Exchange.String()}, []string{"first"}},
		{"exchange by its beginning", query.Filter{Exchange: strings.ToUpper(calls["first"].Exchange.String()[:35])}, []string{"first"}},
		{"text", query.Filter{Text: "quick BROWN"}, []string{"first"}},
		{"text across punctuation", query.Filter{Text: `fox, "quoted"`}, []string{"first"}},
		{"words in another order", query.Filter{Text: "brown quick"}, nil},
		{"text beyond ASCII", query.Filter{Text: "größe"}, []string{"second"}},
		{"text in a context", query.Filter{Text: "192.0.2.7", Tool: "delete"}, []string{"second"}},
		{"text in a detail", query.Filter{Text: "because of delete"}, []string{"second"}},
		{"text of wildcards", query.Filter{Text: `100% _sure_`}, []string{"third"}},
		{"text of SQL", query.Filter{Text: `'; drop table events`}, []string{"third"}},
		{"text of no words", query.Filter{Text: "%"}, []string{"third"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			found, err := s.reader.Search(t.Context(), test.filter)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, names(calls, found)); diff != "" {
				t.Errorf("found other exchanges (-want +got):\n%s", diff)
			}
		})
	}
	t.Run("fields", func(t *testing.T) {
		found, err := s.reader.Search(t.Context(), query.Filter{Tool: "delete"})
		if err != nil || len(found) != 1 {
			t.Fatalf("found %d, %v", len(found), err)
		}
		e, c := found[0], calls["second"]
		want := query.Exchange{
			ID: c.Exchange, Started: c.Request.Time.Std(), Ended: c.Outcome.Time.Std(), Tenant: "acme", Gateway: "gw", Server: "demo",
			Method: "tools/call", Target: "delete", Outcome: "denied", Status: "validation_failed", AbortedAt: "guard",
			Reason: "because of delete", PrincipalType: "user", Principal: "bob", Session: "5e5510", Client: "inspector",
			TotalUS: 1000, ChainUS: 5, BackendUS: 800, Stream: "CHAINTRAIL_0", Position: 4,
		}
		if diff := cmp.Diff(want, e); diff != "" {
			t.Errorf("exchange differs (-want +got):\n%s", diff)
		}
	})
}

func TestFilterIsRefused(t *testing.T) {
	t.Parallel()
	r := query.New(nil)
	for _, f := range []query.Filter{
		{Exchange: "not an id"}, {Exchange: strings.Repeat("a", 37)}, {Limit: -1}, {Limit: query.MaxLimit + 1}, {Text: strings.Repeat("a", query.MaxText+1)},
	} {
		if _, err := r.Search(t.Context(), f); !errors.Is(err, query.ErrFilter) {
			t.Errorf("Search(%+.80v) returned %v, want ErrFilter", f, err)
		}
	}
	if _, err := r.Show(t.Context(), "'", 0); !errors.Is(err, query.ErrFilter) {
		t.Errorf("Show returned %v, want ErrFilter", err)
	}
}

func TestTail(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	w := sinktest.NewWriter()
	calls := map[string]*sinktest.Call{"a": s.call(t, w, "echo", "ann", schemas.OutcomeAllowed, `{}`)}
	s.stored(t)
	cursor, err := s.reader.Now(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i, name := range []string{"b", "c", "d"} {
		calls[name] = s.call(t, w, "echo", "ann", schemas.OutcomeAllowed, `{}`)
		if i == 1 {
			calls["x"] = s.call(t, w, "delete", "ann", schemas.OutcomeAllowed, `{}`)
		}
	}
	s.stored(t)
	for _, want := range [][]string{{"b", "c"}, {"d"}, nil} {
		var found []query.Exchange
		found, cursor, err = s.reader.Tail(t.Context(), cursor, query.Filter{Tool: "echo", Limit: 2})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, names(calls, found)); diff != "" {
			t.Errorf("tail differs (-want +got):\n%s", diff)
		}
	}
	if found, _, err := s.reader.Tail(t.Context(), nil, query.Filter{}); err != nil || len(found) != 5 {
		t.Errorf("tail from the beginning found %d, %v, want 5", len(found), err)
	}
}

func TestShow(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	w := sinktest.NewWriter()
	c := s.call(t, w, "echo", "ann", schemas.OutcomeDenied, `{"text":"hello"}`)
	s.stored(t)
	id := c.Exchange.String()

	first, err := s.reader.Show(t.Context(), id[:34], 0)
	if err != nil {
		t.Fatal(err)
	}
	if len(first.Phases) != 2 || first.Open || first.Tenant != "acme" {
		t.Fatalf("timeline has %d phases, open %v, tenant %s", len(first.Phases), first.Open, first.Tenant)
	}
	p := first.Phases[0]
	if p.Context == nil || p.Context.Principal != "ann" || len(p.Bodies) != 1 || p.Bodies[0].Data != `{"text":"hello"}` {
		t.Errorf("request phase has context %+v and bodies %+v", p.Context, p.Bodies)
	}
	if len(p.Invocations) != 2 || p.Invocations[0].Valid == nil || *p.Invocations[0].Valid || p.Invocations[1].State != schemas.StateDeferred {
		t.Errorf("request phase has invocations %+v", p.Invocations)
	}
	if d := first.Phases[1].Detail; d == nil || d.Reason != "because of echo" {
		t.Errorf("outcome phase has detail %+v", d)
	}

	s.events.Add(w.Result(t, c, 2))
	s.stored(t)
	second, err := s.reader.Show(t.Context(), id, 5)
	if err != nil {
		t.Fatal(err)
	}
	p = second.Phases[0]
	if v := p.Invocations[1]; v.State != schemas.StateFinished || !v.Deferred || v.Attempt != 2 || v.Ended.IsZero() {
		t.Errorf("deferred invocation is %+v", v)
	}
	if b := p.Bodies[0]; b.Data != `{"tex` || !b.Truncated || b.Bytes != 16 {
		t.Errorf("body is %+v, want its first 5 bytes", b)
	}
	if _, err := jsonx.Marshal(second); err != nil {
		t.Errorf("timeline has no JSON form: %v", err)
	}
	for _, unknown := range []string{"ffffffff", "00000000-0000-7000-8000-000000000000"} {
		if _, err := s.reader.Show(t.Context(), unknown, 0); !errors.Is(err, query.ErrNotFound) {
			t.Errorf("Show(%s) returned %v, want ErrNotFound", unknown, err)
		}
	}
	s.call(t, w, "echo", "ann", schemas.OutcomeAllowed, `{}`)
	s.stored(t)
	if _, err := s.reader.Show(t.Context(), id[:4], 0); !errors.Is(err, query.ErrAmbiguous) {
		t.Errorf("Show of a shared beginning returned %v, want ErrAmbiguous", err)
	}
}

func TestShowPartsAndOddBytes(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	w := sinktest.NewWriter()
	c := w.Call(t, "echo", "ann", schemas.OutcomeAllowed, "\xff\xfe")
	for part, text := range []string{"ab\u00e9", "cd\u00e9", "ef"} {
		c.Items = append(c.Items, w.Item(t, &c.Outcome, schemas.OpenHeader{Role: schemas.RoleBefore, Part: part, Parts: 3}, []byte(text)))
	}
	c.Outcome.Open = []schemas.OpenRef{{Role: schemas.RoleBefore, Bytes: 10}, {Role: schemas.RoleAfter, Bytes: 3}}
	w.Seq--
	c.Events[1] = w.Event(t, &c.Outcome)
	for i := range c.Items { // the outcome was sealed anew, one tick later
		if i >= 3 {
			c.Items[i] = w.Item(t, &c.Outcome, schemas.OpenHeader{Role: schemas.RoleBefore, Part: i - 3, Parts: 3}, c.Items[i].Data)
		}
	}
	s.events.Add(c.Events...)
	s.open.Add(c.Items...)
	s.stored(t)
	for limit, want := range map[int]string{0: "ab\u00e9cd\u00e9ef", 7: "ab\u00e9cd", 4: "ab\u00e9", 3: "ab"} {
		got, err := s.reader.Show(t.Context(), c.Exchange.String(), limit)
		if err != nil {
			t.Fatal(err)
		}
		if b := got.Phases[1].Bodies[0]; b.Data != want {
			t.Errorf("limit %d gives %+v, want %q", limit, b, want)
		}
		if b := got.Phases[1].Bodies[1]; !b.Missing {
			t.Errorf("a body that is not stored is %+v", b)
		}
		if b := got.Phases[0].Bodies[0]; string(b.Raw) != "\xff\xfe" || b.Data != "" {
			t.Errorf("odd bytes are %+v", b)
		}
		if _, err := jsonx.Marshal(got); err != nil {
			t.Errorf("timeline has no JSON form: %v", err)
		}
	}
}

func TestStats(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	w := sinktest.NewWriter()
	old := s.call(t, w, "echo", "ann", schemas.OutcomeAllowed, `{}`)
	for i := range 4 {
		outcome := schemas.OutcomeAllowed
		if i == 0 {
			outcome = schemas.OutcomeDenied
		}
		s.call(t, w, fmt.Sprintf("tool%d", i%2), "ann", outcome, `{}`)
	}
	s.events.Add(w.Event(t, &schemas.Event{Kind: schemas.KindGap, Gap: &schemas.Gap{Count: 7, Reason: "shed"}}))
	s.stored(t)
	got, err := s.reader.Stats(t.Context(), old.Outcome.Time.Std().Add(time.Microsecond))
	if err != nil {
		t.Fatal(err)
	}
	if got.Exchanges != 4 || got.Unrecorded != 7 || got.Outcomes[schemas.OutcomeDenied] != 1 || len(got.Tools) != 2 || got.Tools[0].Calls != 2 || got.Tools[0].P95US != 1000 {
		t.Errorf("summary is %+v", got)
	}
	want := []query.InterceptorSummary{{
		Name: "guard", Version: "1.2.0", Type: schemas.TypeValidation, Mode: schemas.ModeActive, Results: 4, Invalid: 1, P50US: 9, P95US: 9,
	}}
	if diff := cmp.Diff(want, got.Interceptors); diff != "" {
		t.Errorf("interceptors differ (-want +got):\n%s", diff)
	}
	if len(got.Streams) != 1 || got.Streams[0].Position != 11 || got.Streams[0].Events != 9 {
		t.Errorf("streams are %+v", got.Streams)
	}
	empty, err := s.reader.Stats(t.Context(), time.Now().Add(time.Hour))
	if err != nil || empty.Exchanges != 0 {
		t.Errorf("summary of nothing is %+v, %v", empty, err)
	}
}
