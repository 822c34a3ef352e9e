package gateway

import (
	"context"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"
	"uuid"

	"github.com/chaintrail/chaintrail/chain"
	"github.com/chaintrail/chaintrail/chain/wire"
	"github.com/chaintrail/chaintrail/schemas"
)

// lane is what all exchanges with one backend share.
type lane struct {
	backend  *Backend
	opts     *Options
	rules    *atomic.Pointer[Rules] // the gateway's
	log      *slog.Logger
	source   atomic.Pointer[func() Plan] // of the plan in force; a reload replaces it
	registry *registry
	sessions *sessionTable
	unnamed  *session // holds the server's open requests to clients without a session id
	listed   *nameSet
	bound    *bindingTable
	outdated atomic.Bool // the backend was found to speak the transport of 2024-11-05
	spoken   generations
	calls    *callTable
	rounds   *roundTable
	stray    atomic.Uint64 // answers to ids that nobody waits for
	refused  refusals
	pool     *chain.Pool // of what a Resolver chooses

	unresolved refusals
}

func newLane(b *Backend, opts *Options, rules *atomic.Pointer[Rules], reg *registry, pool *chain.Pool) *lane {
	l := &lane{
		backend:  b,
		opts:     opts,
		rules:    rules,
		log:      opts.Logger.With(slog.String("backend", b.Name)),
		registry: reg,
		pool:     pool,
		sessions: newSessionTable(opts.MaxSessions),
		listed:   newNameSet(),
		bound:    newBindingTable(),
		calls:    newCallTable(),
		rounds:   newRoundTable(),
		unnamed:  newSession("", &opts.Key, opts.MaxPending),
	}
	l.source.Store(&b.Plan)
	return l
}

// inherit takes over what is remembered of the server's sessions.
func (l *lane) inherit(old *lane) {
	l.sessions, l.unnamed, l.listed = old.sessions, old.unnamed, old.listed
	l.bound, l.calls, l.rounds = old.bound, old.calls, old.rounds
}

// relayed reports whether the backend's own sessions are relayed, rather than made here.
func (l *lane) relayed() bool {
	return l.backend.URL != "" && l.backend.Transport != TransportSSE && !l.outdated.Load()
}

// session returns what is remembered of a session; without an id a fresh one that nobody shares.
func (l *lane) session(id string) *session {
	if id == "" {
		return newSession("", &l.opts.Key, l.opts.MaxPending)
	}
	return l.sessions.get(id, func() *session { return newSession(id, &l.opts.Key, l.opts.MaxPending) })
}

func (l *lane) plan() Plan {
	plan := *l.source.Load()
	if plan == nil {
		return nil
	}
	return plan()
}

func (l *lane) limits(lenient bool) wire.Limits {
	return wire.Limits{MaxDepth: l.opts.MaxDepth, Lenient: lenient}
}

// record journals rec. It returns the cause to tell the caller when that fails.
func (l *lane) record(ctx context.Context, rec *schemas.Record) (cause string) {
	rec.Event.Tenant, rec.Event.Gateway = l.opts.Tenant, l.opts.Gateway
	err := l.opts.Recorder.Record(ctx, rec)
	if err == nil {
		return ""
	}
	cause = causeAuditFailed
	if l.opts.AuditFull != nil && l.opts.AuditFull(err) {
		cause = causeAuditFull
	}
	if n, say := l.refused.note(time.Now()); say {
		l.log.ErrorContext(ctx, "events not recorded, their calls are refused", slog.String("cause", cause), slog.Any("error", err),
			slog.Uint64("events", n), slog.String("last_kind", string(rec.Event.Kind)),
			slog.String("last_exchange_id", rec.Event.Correlation.Exchange.String()))
	}
	return cause
}

// answerStray records an answer that nobody waits for. It is not forwarded, and not answered.
func (l *lane) answerStray(ctx context.Context, in arrival) {
	l.stray.Add(1)
	in.scope, in.reply = false, nil
	l.newExchange(in).refuse(ctx, verdict{outcome: schemas.OutcomeDenied, cause: causeStray, text: "an answer to an id that is not open"})
}

// strayFromServer is [lane.answerStray] for an answer of the server.
func (l *lane) strayFromServer(ctx context.Context, in arrival, msg wire.Message) {
	in.msg, in.reverse = msg, true
	l.answerStray(ctx, in)
}

// arrival is a request as it came in, with what the transport knows of its sender.
type arrival struct {
	session     *session
	scope       bool // the id is unique in the session, so that it may be found by it
	reverse     bool // from server to client
	msg         wire.Message
	caller      Caller
	transport   string      // "http" or "stdio": the client's side
	header      http.Header // of the HTTP request, or of the one that began the session
	address     string
	userAgent   string
	traceparent string // of the transport; _meta goes first
	headless    bool   // it goes on without headers of its own
	version     string // of the transport; _meta goes first
	parent      uuid.UUID
	call        uuid.UUID        // zero: the exchange begins one
	reply       func(raw []byte) // takes the answer where the transport does not wait for it; may be nil
}
