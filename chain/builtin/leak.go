package builtin

import (
	"bytes"
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json/jsontext"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/chaintrail/chaintrail/chain/interceptor"
	"github.com/chaintrail/chaintrail/chain/wire"
	"github.com/chaintrail/chaintrail/internal/detect"
	"github.com/chaintrail/chaintrail/schemas"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

// LeakConfig says what counts as one server, and how long a secret is remembered.
type LeakConfig struct {
	Scope       string            `json:"scope,omitzero"        jsonschema:"whose answers and requests belong together: session (default) or principal"`
	Servers     map[string]string `json:"servers,omitempty"     jsonschema:"server by tool name, with * as wildcard; default: the configured server, parted by well-known tools"`
	TTLSeconds  int               `json:"ttl_seconds,omitzero"  jsonschema:"how long a secret is remembered; default 3600"`
	MaxSessions int               `json:"max_sessions,omitzero" jsonschema:"sessions or principals remembered; default 10000. Beyond it requests of new ones are refused"`
	MaxSecrets  int               `json:"max_secrets,omitzero"  jsonschema:"secrets remembered for each; default 1000. Beyond it results with new ones are refused"`
}

// errLeakFull is what a guard answers that can remember no more: it fails, and so blocks.
var errLeakFull = errors.New("the leak guard remembers as much as it may")

func leakGuard() kind {
	return kind{interceptor.Descriptor{
		Name:        Namespace + "leak-guard",
		Description: "Blocks a request that carries a secret which another server answered in the same session",
		Hooks:       interceptor.Both("*"),
		ConfigSchema: schemaFor[LeakConfig](func(s *jsonschema.Schema) {
			enum(s.Properties["scope"], "session", "principal")
		}),
	}, func(d interceptor.Descriptor, o *Options) (interceptor.Interceptor, error) {
		all, err := newSettings(o.Config, buildLeak)
		return interceptor.Validator(d, func(_ context.Context, call *interceptor.Call) (interceptor.Verdict, error) {
			g, err := all.of(call)
			if err != nil {
				return interceptor.Verdict{}, err
			}
			return g.judge(call, time.Now())
		}), err
	}}
}

// secretDigest stands for a secret: keyed, so that what is remembered gives nothing away.
type secretDigest = [sha256.Size]byte

// leak is a guard with its memory.
type leak struct {
	config   LeakConfig
	ttl      time.Duration
	key      []byte
	detector *detect.Detector
	patterns []string // of config.Servers, the longest first

	mu       sync.Mutex // covers the rest
	sessions map[string]*leakSession
	swept    time.Time
}

type leakSession struct {
	inFlight string // server of the request whose answer comes next, where the invoker does not tell
	origins  map[secretDigest]origin
	used     time.Time
}

type origin struct {
	server string
	seen   time.Time
}

func buildLeak(c *LeakConfig) (*leak, error) {
	if err := oneOf("scope", c.Scope, "session", "principal"); err != nil {
		return nil, err
	}
	for _, n := range []struct {
		value    *int
		fallback int
	}{{&c.TTLSeconds, 3600}, {&c.MaxSessions, 10_000}, {&c.MaxSecrets, 1000}} {
		if *n.value < 0 {
			return nil, fmt.Errorf("%w: ttl_seconds, max_sessions and max_secrets must be positive", ErrConfig)
		}
		if *n.value == 0 {
			*n.value = n.fallback
		}
	}
	d, err := detect.New(detect.Config{Off: detect.PersonalKinds()})
	if err != nil {
		return nil, err
	}
	key := make([]byte, sha256.Size)
	_, _ = rand.Read(key) // never fails
	patterns := slices.SortedFunc(maps.Keys(c.Servers), func(a, b string) int {
		return cmp.Or(cmp.Compare(len(b), len(a)), cmp.Compare(a, b))
	})
	return &leak{
		patterns: patterns, config: *c, ttl: time.Duration(c.TTLSeconds) * time.Second, key: key, detector: d, sessions: map[string]*leakSession{},
	}, nil
}

func (g *leak) judge(call *interceptor.Call, now time.Time) (interceptor.Verdict, error) {
	caller, err := call.Caller()
	if err != nil {
		return interceptor.Verdict{}, err
	}
	secrets, err := g.secrets(call)
	if err != nil {
		return interceptor.Verdict{}, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	session, err := g.session(&caller, now)
	if err != nil {
		return interceptor.Verdict{}, err
	}
	if call.Phase == schemas.PhaseResponse {
		return interceptor.Pass(), g.remember(session, g.answeredBy(session, &caller), secrets, now)
	}
	target := g.serverOf(call, &caller)
	for _, s := range secrets {
		from, known := session.origins[s.digest]
		if !known || now.Sub(from.seen) > g.ttl || from.server == target {
			continue
		}
		v := interceptor.Deny("a secret of " + from.server + " may not go to " + target)
		v.Messages[0].Path = placeOf(call.Payload, s.at)
		return v, nil
	}
	session.inFlight = target
	return interceptor.Pass(), nil
}

// session finds or makes the memory of a session; the least it forgets is what is out of date.
func (g *leak) session(caller *interceptor.Caller, now time.Time) (*leakSession, error) {
	key := caller.SessionID
	if g.config.Scope == "principal" {
		key = caller.Principal.Type + "\x00" + caller.Principal.ID
	}
	if len(key) > sha256.Size {
		digest := g.digest([]byte(key))
		key = string(digest[:])
	}
	s := g.sessions[key]
	if s == nil {
		if len(g.sessions) >= g.config.MaxSessions && now.Sub(g.swept) >= sweepEvery {
			g.swept = now
			for k, old := range g.sessions {
				if now.Sub(old.used) > g.ttl {
					delete(g.sessions, k)
				}
			}
		}
		if len(g.sessions) >= g.config.MaxSessions {
			return nil, fmt.Errorf("%w: %d sessions", errLeakFull, len(g.sessions))
		}
		s = &leakSession{origins: map[secretDigest]origin{}}
		g.sessions[key] = s
	}
	s.used = now
	return s, nil
}

// remember marks new secrets with the server that answered them; the first origin stays.
func (g *leak) remember(s *leakSession, server string, secrets []secret, now time.Time) error {
	for _, found := range secrets {
		if !found.sure {
			continue
		}
		if known, ok := s.origins[found.digest]; ok && now.Sub(known.seen) <= g.ttl {
			known.seen = now
			s.origins[found.digest] = known
			continue
		}
		if len(s.origins) >= g.config.MaxSecrets {
			for digest, old := range s.origins {
				if now.Sub(old.seen) > g.ttl {
					delete(s.origins, digest)
				}
			}
			if len(s.origins) >= g.config.MaxSecrets {
				return fmt.Errorf("%w: %d secrets of a session", errLeakFull, len(s.origins))
			}
		}
		s.origins[found.digest] = origin{server, now}
	}
	return nil
}

// secret is a value of a payload that is one, or, where it is not sure, may be one that was answered
// under the name of a secret.
type secret struct {
	digest secretDigest
	at     int
	sure   bool
}

func (g *leak) secrets(call *interceptor.Call) ([]secret, error) {
	var list []secret
	for _, f := range g.detector.Findings(call.Payload) {
		value, ok := jsonx.StringOf(append(append([]byte{'"'}, call.Payload[f.Start:f.End]...), '"'))
		if !ok {
			value = string(call.Payload[f.Start:f.End])
		}
		list = append(list, secret{g.digest([]byte(value)), f.Start, true})
	}
	if call.Phase == schemas.PhaseResponse {
		return list, nil
	}
	return g.whole(call.Payload, list)
}

// Bounds of the strings that are compared as a whole.
const (
	minWhole   = 4
	maxWhole   = 4096
	mostWholes = 1000
)

// whole adds the strings of a request: a password that was found by its name goes on under another one.
func (g *leak) whole(payload jsonx.Value, list []secret) ([]secret, error) {
	dec := jsontext.NewDecoder(bytes.NewReader(payload), jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true))
	for n := 0; n < mostWholes; {
		kind := dec.PeekKind()
		if kind != '"' {
			if _, err := dec.ReadToken(); errors.Is(err, io.EOF) {
				return list, nil
			} else if err != nil {
				return nil, fmt.Errorf("read payload: %w", err)
			}
			continue
		}
		raw, err := dec.ReadValue()
		if err != nil {
			return nil, fmt.Errorf("read payload: %w", err)
		}
		if s, _ := jsonx.StringOf(raw); len(s) >= minWhole && len(s) <= maxWhole {
			list = append(list, secret{g.digest([]byte(s)), int(dec.InputOffset()) - len(raw), false})
			n++
		}
	}
	return list, nil
}

func (g *leak) digest(value []byte) (d secretDigest) {
	mac := hmac.New(sha256.New, g.key)
	mac.Write(value)
	mac.Sum(d[:0])
	return d
}

// answeredBy is the server of a response: as the invoker tells, else of the request before it.
func (g *leak) answeredBy(s *leakSession, caller *interceptor.Caller) string {
	if caller.Server == "" || caller.Target == "" {
		return s.inFlight
	}
	return g.serverOfTarget(caller.Target, caller.Server)
}

// serverOf says which server a request goes to.
func (g *leak) serverOf(call *interceptor.Call, caller *interceptor.Caller) string {
	if uri, ok := wire.MemberString(call.Payload, "uri"); ok {
		return g.serverOfTarget(uri, caller.Server)
	}
	return g.serverOfTarget(toolOf(call.Payload), caller.Server)
}

// serverOfTarget names the server of a tool or URI. One configured server may front several: well-known
// tools and the authorities of URIs part it.
func (g *leak) serverOfTarget(target, configured string) string {
	for _, pattern := range g.patterns {
		if glob(pattern, target) {
			return g.config.Servers[pattern]
		}
	}
	part := wellKnownServer(target)
	switch {
	case configured == "":
		if part == "" {
			part, _, _ = strings.Cut(target, "_")
		}
		return part
	case part == "":
		return configured
	}
	return configured + "/" + part
}

func wellKnownServer(target string) string {
	if scheme, rest, ok := strings.Cut(target, "://"); ok {
		if authority, _, _ := strings.Cut(rest, "/"); authority != "" {
			return authority
		}
		return scheme
	}
	switch target {
	case "read_file", "write_file", "move_file", "list_directory", "search_files":
		return "filesystem"
	case "read_query", "write_query", "list_tables", "describe_table":
		return "sqlite"
	}
	return ""
}
