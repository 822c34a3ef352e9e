package builtin

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	"golang.org/x/time/rate"

	"github.com/chaintrail/chaintrail/chain/interceptor"
)

// RateConfig bounds how often something is asked for; without limits there is one: 600 a minute for each
// principal, 100 at once.
type RateConfig struct {
	Limits  []RateRule `json:"limits,omitempty"   jsonschema:"all of them hold; default: 600 a minute by principal"`
	MaxKeys int        `json:"max_keys,omitzero"  jsonschema:"counters kept for each limit; default 10000. Beyond it new keys share one"`
}

// RateRule is a token bucket for each value of its keys.
type RateRule struct {
	By     []string `json:"by,omitempty"     jsonschema:"what has a counter of its own, together: principal, session, tool, server, event; empty: one for all"`
	Events []string `json:"events,omitempty" jsonschema:"events that count, with * as wildcard; empty: all"`
	Tools  []string `json:"tools,omitempty"  jsonschema:"tools, prompts or resources that count, with * as wildcard; empty: all"`
	Rate   float64  `json:"rate"             jsonschema:"how many in a period"`
	Per    string   `json:"per,omitzero"     jsonschema:"the period; default minute"`
	Burst  int      `json:"burst,omitzero"   jsonschema:"how many at once; default: rate, at least 1"`
}

const defaultMaxKeys = 10_000

var rateKeys = []string{"principal", "session", "tool", "server", "event"}

func rateLimit() kind {
	return kind{interceptor.Descriptor{
		Name: Namespace + "rate-limit", Description: "Blocks requests that come too often",
		Hooks: interceptor.OnRequest("*"),
		ConfigSchema: schemaFor[RateConfig](func(s *jsonschema.Schema) {
			rule := s.Properties["limits"].Items
			enum(rule.Properties["by"].Items, rateKeys...)
			enum(rule.Properties["per"], "second", "minute", "hour", "day")
			rule.Properties["rate"].ExclusiveMinimum = new(float64(0))
		}),
	}, func(d interceptor.Descriptor, o *Options) (interceptor.Interceptor, error) {
		all, err := newSettings(o.Config, buildRate)
		return interceptor.Validator(d, func(_ context.Context, call *interceptor.Call) (interceptor.Verdict, error) {
			limits, err := all.of(call)
			if err != nil {
				return interceptor.Verdict{}, err
			}
			return limits.judge(call, time.Now())
		}), err
	}}
}

// rateLimits are the counters of a configuration.
type rateLimits []*rateCounter

func buildRate(c *RateConfig) (rateLimits, error) {
	if len(c.Limits) == 0 {
		c.Limits = []RateRule{{By: []string{"principal"}, Rate: 600, Burst: 100}}
	}
	if c.MaxKeys == 0 {
		c.MaxKeys = defaultMaxKeys
	}
	if c.MaxKeys < 1 {
		return nil, fmt.Errorf("%w: max_keys: %d is not positive", ErrConfig, c.MaxKeys)
	}
	limits := make(rateLimits, len(c.Limits))
	for i, r := range c.Limits {
		period := map[string]time.Duration{"": time.Minute, "second": time.Second, "minute": time.Minute, "hour": time.Hour, "day": 24 * time.Hour}[r.Per]
		switch {
		case period == 0:
			return nil, fmt.Errorf("%w: limits[%d].per: %q is not one of second, minute, hour, day", ErrConfig, i, r.Per)
		case !(r.Rate > 0) || r.Burst < 0:
			return nil, fmt.Errorf("%w: limits[%d]: rate must be above 0, and burst not below", ErrConfig, i)
		}
		for _, by := range r.By {
			if !slices.Contains(rateKeys, by) {
				return nil, fmt.Errorf("%w: limits[%d].by: %q is not one of %s", ErrConfig, i, by, strings.Join(rateKeys, ", "))
			}
		}
		if r.Burst == 0 {
			r.Burst = max(1, int(min(r.Rate, 1<<30)))
		}
		limits[i] = &rateCounter{
			rule: r, limit: rate.Limit(r.Rate / period.Seconds()), maxKeys: c.MaxKeys, buckets: map[string]*rate.Limiter{},
		}
	}
	return limits, nil
}

func (l rateLimits) judge(call *interceptor.Call, now time.Time) (interceptor.Verdict, error) {
	caller, err := call.Caller()
	if err != nil {
		return interceptor.Verdict{}, err
	}
	target, err := targetOf(call)
	if err != nil {
		return interceptor.Verdict{}, err
	}
	for _, c := range l {
		if !c.counts(call.Event, target) || c.allow(c.key(call, &caller, target), now) {
			continue
		}
		return interceptor.Deny("too many requests: " + c.String()), nil
	}
	return interceptor.Pass(), nil
}

// rateCounter is one rule with its buckets. A bucket that is full again is as good as none, and goes when
// room is needed; what finds no room shares one, so that made-up keys give nobody a fresh start.
type rateCounter struct {
	rule    RateRule
	limit   rate.Limit
	maxKeys int

	mu      sync.Mutex // covers the rest
	buckets map[string]*rate.Limiter
	shared  *rate.Limiter
	swept   time.Time
}

func (c *rateCounter) String() string {
	text := fmt.Sprintf("at most %g a %s", c.rule.Rate, per(c.rule.Per))
	if len(c.rule.By) > 0 {
		text += " by " + strings.Join(c.rule.By, " and ")
	}
	return text
}

func per(period string) string {
	if period == "" {
		return "minute"
	}
	return period
}

func (c *rateCounter) counts(event, target string) bool {
	return anyGlob(c.rule.Events, event) && anyGlob(c.rule.Tools, target)
}

func (c *rateCounter) key(call *interceptor.Call, caller *interceptor.Caller, target string) string {
	var b strings.Builder
	for _, by := range c.rule.By {
		part := ""
		switch by {
		case "principal":
			part = caller.Principal.Type + "\x00" + caller.Principal.ID
		case "session":
			part = caller.SessionID
		case "tool":
			part = target
		case "server":
			part = caller.Server
		case "event":
			part = call.Event
		}
		fmt.Fprintf(&b, "%d:%s", len(part), part)
	}
	if b.Len() <= maxRateKey {
		return b.String()
	}
	sum := sha256.Sum256([]byte(b.String())) // callers choose how long their names are
	return string(sum[:])
}

const maxRateKey = 256

func (c *rateCounter) allow(key string, now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	bucket := c.buckets[key]
	if bucket == nil {
		bucket = c.place(key, now)
	}
	return bucket.AllowN(now, 1)
}

// sweepEvery bounds how often a full table is searched for buckets to give up.
const sweepEvery = time.Second

func (c *rateCounter) place(key string, now time.Time) *rate.Limiter {
	if len(c.buckets) >= c.maxKeys && now.Sub(c.swept) >= sweepEvery {
		c.swept = now
		for k, b := range c.buckets {
			if b.TokensAt(now) >= float64(c.rule.Burst) {
				delete(c.buckets, k)
			}
		}
	}
	if len(c.buckets) < c.maxKeys {
		c.buckets[key] = rate.NewLimiter(c.limit, c.rule.Burst)
		return c.buckets[key]
	}
	if c.shared == nil {
		c.shared = rate.NewLimiter(c.limit, c.rule.Burst)
	}
	return c.shared
}
