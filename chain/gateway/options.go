package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"regexp"
	"time"

	"github.com/chaintrail/chaintrail/chain"
	"github.com/chaintrail/chaintrail/schemas"
	"github.com/chaintrail/chaintrail/schemas/seal"
)

// Defaults of [Options] whose fields are zero.
const (
	DefaultMaxMessage  = 64 << 20
	DefaultMaxOpen     = 10_000
	DefaultMaxSessions = 10_000
	DefaultMaxPending  = 4_096
	DefaultMaxChildren = 256
	DefaultStopGrace   = 5 * time.Second
	DefaultSessionIdle = 30 * time.Minute
)

// Plan is the interceptors in force at one moment; satisfied by *chain.Plan.
type Plan interface {
	// Matches reports whether any interceptor has a hook for the event in the phase.
	Matches(event string, phase schemas.Phase) bool
	// Digest names the plan.
	Digest() seal.Hash
	// Run takes one message through the plan. It returns soon after ctx is done.
	Run(ctx context.Context, in chain.Input) chain.Result
}

// Transports of a [Backend] with a URL.
const (
	TransportHTTP = "http" // streamable HTTP, since 2025-03-26
	TransportSSE  = "sse"  // HTTP+SSE of 2024-11-05
)

// Backend is one MCP server behind the gateway: either URL or Command is set.
type Backend struct {
	Name string // required: [a-z0-9-]{1,64}; the path is /<name>/mcp
	URL  string // HTTP endpoint
	// Transport is how URL is spoken to: TransportHTTP, TransportSSE, or empty: streamable HTTP, and
	// where that is refused the older one, if URL has it.
	Transport string
	Headers   map[string]string // set on every request to URL, over those of the client
	Command   []string          // program and arguments of a stdio server
	Env       map[string]string // added to the gateway's own environment
	Dir       string            // working directory of the command
	Shared    bool              // one child for all sessions, instead of one each
	// Bridge tells what happens where client and server speak different generations of MCP: BridgeAuto
	// or empty translates, but leaves a refused server/discover to the client, which then can fall back to
	// initialize; BridgeAlways answers that, too; BridgeOff hands the server's refusals on.
	Bridge string
	Plan   func() Plan // the plan in force now; nil, or a nil result: no interceptors
}

// Caller is who sent a request, as far as it was verified.
type Caller struct {
	Principal  chain.Principal
	VerifiedBy string // configured name of what verified it; empty: asserted only
}

// Options are what a Gateway is made of. Zero values mean the defaults.
type Options struct {
	Recorder chain.Recorder // required
	Backends []Backend      // required: at least one
	Logger   *slog.Logger   // nil: discard
	Key      seal.Key       // pseudonym key of the tenant
	Tenant   string
	Gateway  string // configured name of this gateway
	Rules    Rules  // what may change later, by Reload

	// Identify tells who sent an HTTP request; nil: everybody is anonymous. An error refuses the
	// request with status 401.
	Identify func(*http.Request) (Caller, error)
	// StdioCaller is who speaks on stdio.
	StdioCaller Caller
	// AuditFull reports whether an error of the Recorder means that the journal is full; other
	// errors count as failures. nil: none does.
	AuditFull func(error) bool
	// AllowedHosts are host names, beside loopback ones, that a Host or Origin header may name on
	// a loopback listener (DNS rebinding protection).
	AllowedHosts []string

	// Resolved is what holds for plans with servers that Rules.Resolver chose and without the plan in force;
	// with it, what holds for that plan goes for all.
	Resolved     chain.Config
	ResolvedIdle time.Duration // such a server is let go when unused for so long; 0 means [chain.DefaultPoolIdle]

	MaxMessage  int64             // bytes of one message
	MaxDepth    int               // levels of JSON nesting
	MaxOpen     int               // exchanges at a time, all backends together
	MaxSessions int               // sessions that are remembered, for each backend
	MaxPending  int               // open exchanges of one session and direction
	MaxChildren int               // children of a stdio backend that is not shared: one for each HTTP session
	SessionIdle time.Duration     // HTTP sessions at stdio servers end when unused for so long
	StopGrace   time.Duration     // for a stdio child, before it is killed
	Transport   http.RoundTripper // nil: a tuned http.Transport, owned by the gateway
}

var backendName = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,62}[a-z0-9])?$`)

func (o *Options) withDefaults() Options {
	out := *o
	if out.Logger == nil {
		out.Logger = slog.New(slog.DiscardHandler)
	}
	out.MaxMessage = orDefault(out.MaxMessage, DefaultMaxMessage)
	out.MaxOpen = orDefault(out.MaxOpen, DefaultMaxOpen)
	out.MaxSessions = orDefault(out.MaxSessions, DefaultMaxSessions)
	out.MaxPending = orDefault(out.MaxPending, DefaultMaxPending)
	out.MaxChildren = orDefault(out.MaxChildren, DefaultMaxChildren)
	out.SessionIdle = orDefault(out.SessionIdle, DefaultSessionIdle)
	out.StopGrace = orDefault(out.StopGrace, DefaultStopGrace)
	return out
}

func orDefault[T int | int64 | time.Duration](v, def T) T {
	if v <= 0 {
		return def
	}
	return v
}

func (o *Options) validate() error {
	if o.Recorder == nil {
		return errors.New("gateway: no recorder")
	}
	if err := o.Rules.validate(); err != nil {
		return fmt.Errorf("gateway: %w", err)
	}
	return validateBackends(o.Backends)
}

func validateBackends(backends []Backend) error {
	if len(backends) == 0 {
		return errors.New("gateway: no backends")
	}
	seen := make(map[string]bool, len(backends))
	for i := range backends {
		b := &backends[i]
		if !backendName.MatchString(b.Name) {
			return fmt.Errorf("backend %q: a name has 1 to 64 of a-z, 0-9 and -", b.Name)
		}
		if seen[b.Name] {
			return fmt.Errorf("backend %q: the name is used twice", b.Name)
		}
		seen[b.Name] = true
		if err := b.validate(); err != nil {
			return fmt.Errorf("backend %q: %w", b.Name, err)
		}
	}
	return nil
}

func (b *Backend) validate() error {
	switch {
	case b.URL == "" && len(b.Command) == 0:
		return errors.New("neither url nor command is set")
	case b.URL != "" && len(b.Command) > 0:
		return errors.New("both url and command are set")
	case b.Transport != "" && b.Transport != TransportHTTP && b.Transport != TransportSSE:
		return fmt.Errorf("transport %q: want http or sse", b.Transport)
	case b.Bridge != "" && b.Bridge != BridgeAuto && b.Bridge != BridgeAlways && b.Bridge != BridgeOff:
		return fmt.Errorf("bridge %q: want auto, always or off", b.Bridge)
	case b.Transport != "" && b.URL == "":
		return errors.New("transport is for a url")
	case b.URL != "":
		u, err := url.Parse(b.URL)
		if err != nil {
			return fmt.Errorf("url: %w", err)
		}
		if (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
			return fmt.Errorf("url %q: want http://host/path or https://host/path", b.URL)
		}
		if b.Shared {
			return errors.New("shared is for a command")
		}
	}
	return nil
}
