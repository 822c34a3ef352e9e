package chain

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/chaintrail/chaintrail/schemas"
)

// Defaults of [BreakerConfig].
const (
	DefaultBreakerFailures = 5
	DefaultBreakerPause    = time.Second
	DefaultBreakerMaxPause = time.Minute
)

// BreakerConfig says when an interceptor that does not answer is not asked any more. Zero values mean the defaults.
type BreakerConfig struct {
	Failures int           // consecutive failures that open the breaker
	Pause    time.Duration // before the first probe
	MaxPause time.Duration // the pause doubles with each probe that fails, up to this
	Logger   *slog.Logger  // nil: discard
}

// Breakers keep, for each interceptor in the request path, whether it answers. They outlive plans: hand the same ones to
// [Config] wherever the interceptors are the same. All methods are concurrent.
//
// What counts is a timeout, a malformed answer, and a connection that fails. An error that the interceptor answers does
// not: it is there, and a payload that it fails on must not switch it off for others. A lost server does not either: its
// invocations fail at once already.
//
// Failure behaviour: while a breaker is open, invocations fail at once with [ErrBreakerOpen], so that the message is
// blocked, or passes where the interceptor fails open. After the pause one invocation goes through as a probe.
type Breakers struct {
	config BreakerConfig

	mu  sync.Mutex // covers all
	all map[member]*breaker
}

// BreakerState is what is known of one interceptor.
type BreakerState struct {
	Host        string
	Interceptor string // as its server lists it
	Open        bool
	Failures    int       // consecutive ones
	Opened      uint64    // how often it was opened, failed probes not counted
	Retry       time.Time // when an open one takes the next probe
}

// ErrBreakerOpen is returned for an invocation that was not made, because the interceptor failed too often. It is probed
// again after a pause.
var ErrBreakerOpen = errors.New("breaker_open: the interceptor failed too often and is not asked for a while")

// NewBreakers returns breakers that are closed.
func NewBreakers(config BreakerConfig) *Breakers {
	config.Failures = cmp.Or(max(config.Failures, 0), DefaultBreakerFailures)
	config.Pause = cmp.Or(max(config.Pause, 0), DefaultBreakerPause)
	config.MaxPause = max(cmp.Or(max(config.MaxPause, 0), DefaultBreakerMaxPause), config.Pause)
	if config.Logger == nil {
		config.Logger = slog.New(slog.DiscardHandler)
	}
	return &Breakers{config: config, all: map[member]*breaker{}}
}

// States returns all breakers, by host and name.
func (b *Breakers) States() []BreakerState {
	b.mu.Lock()
	states := make([]BreakerState, 0, len(b.all))
	for m, one := range b.all {
		states = append(states, one.state(m))
	}
	b.mu.Unlock()
	slices.SortFunc(states, func(a, b BreakerState) int {
		return cmp.Or(cmp.Compare(a.Host, b.Host), cmp.Compare(a.Interceptor, b.Interceptor))
	})
	return states
}

// of returns the breaker of an interceptor; nil where there are none.
func (b *Breakers) of(m member) *breaker {
	if b == nil {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	one := b.all[m]
	if one == nil {
		log := b.config.Logger.With(slog.String("host", m.host), slog.String("interceptor", m.name))
		one = &breaker{config: &b.config, log: log}
		b.all[m] = one
	}
	return one
}

// breaker is that of one interceptor.
type breaker struct {
	config *BreakerConfig
	log    *slog.Logger

	mu       sync.Mutex // covers the rest
	failures int
	opened   uint64
	pause    time.Duration // 0: closed
	retry    time.Time
	probing  bool
}

func (b *breaker) state(m member) BreakerState {
	b.mu.Lock()
	defer b.mu.Unlock()
	return BreakerState{
		Host: m.host, Interceptor: m.name, Open: b.pause > 0, Failures: b.failures, Opened: b.opened, Retry: b.retry,
	}
}

// allow reports whether an invocation may be made now; every one that may MUST be reported.
func (b *breaker) allow() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.pause == 0 {
		return nil
	}
	if b.probing || time.Now().Before(b.retry) {
		return fmt.Errorf("%w: %d failures in a row", ErrBreakerOpen, b.failures)
	}
	b.probing = true
	return nil
}

// sign is what an invocation tells of its interceptor.
type sign int

const (
	signNone  sign = iota // nothing: the caller gave up
	signAlive             // it answers
	signBad
)

func (b *breaker) report(ctx context.Context, s sign) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.probing = false
	switch {
	case s == signAlive:
		if b.pause > 0 {
			b.log.InfoContext(ctx, "interceptor answers again")
		}
		b.failures, b.pause, b.retry = 0, 0, time.Time{}
	case s == signNone:
	case b.pause > 0:
		b.failures++
		b.pause = min(2*b.pause, b.config.MaxPause)
		b.retry = time.Now().Add(b.pause)
	default:
		if b.failures++; b.failures < b.config.Failures {
			return
		}
		b.opened++
		b.pause = b.config.Pause
		b.retry = time.Now().Add(b.pause)
		b.log.ErrorContext(ctx, "interceptor fails, it is not asked for a while", slog.Int("failures", b.failures))
	}
}

// signOf reads an answer; limit is the interceptor's own time.
func signOf(ctx context.Context, a *Answer, err error, limit time.Duration) sign {
	switch {
	case errors.Is(err, ErrLost), context.Cause(ctx) == context.Canceled: //nolint:errorlint // a deadline is no cancel
		return signNone
	case a.State == schemas.StateTimeout && a.ErrorCode == 0 && a.Duration < limit/2:
		return signNone // the time of the whole plan was used up by others
	case a.State == schemas.StateTimeout, a.State == schemas.StateMalformed:
		return signBad
	case a.State == schemas.StateFailed && a.ErrorCode == 0 && !errors.Is(err, ErrPanic):
		return signBad
	}
	return signAlive
}
