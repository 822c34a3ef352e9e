package chaintest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json/jsontext"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"sync"

	"github.com/chaintrail/chaintrail/chain/interceptor"
	"github.com/chaintrail/chaintrail/chain/wire"
	"github.com/chaintrail/chaintrail/schemas"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

// secretPattern holds the formats of the suite: Stripe, GitHub, AWS, Slack.
func secretPattern() *regexp.Regexp {
	return regexp.MustCompile(`[sp]k_live_[0-9A-Za-z]{16,}|gh[po]_[0-9A-Za-z]{20,}|AKIA[0-9A-Z]{16}|xox[br]-[0-9A-Za-z-]{10,}`)
}

// redact replaces each secret in any string by a stable handle.
func redact(_ context.Context, call *interceptor.Call) (interceptor.Mutation, error) {
	secrets := secretPattern()
	out, err := mapStrings(call.Payload, func(s string) string {
		return secrets.ReplaceAllStringFunc(s, func(secret string) string {
			sum := sha256.Sum256([]byte(secret))
			return "[secret:" + hex.EncodeToString(sum[:6]) + "]"
		})
	})
	if err != nil || bytes.Equal(out, call.Payload) {
		return interceptor.Unmodified(), err
	}
	return interceptor.Mutation{Modified: true, Payload: out}, nil
}

// mapStrings rewrites the strings of v, names included; all else stays byte for byte.
func mapStrings(v jsonx.Value, change func(string) string) (jsonx.Value, error) {
	dec := jsontext.NewDecoder(bytes.NewReader(v), jsontext.AllowInvalidUTF8(true))
	var out []byte
	copied := 0
	for {
		if dec.PeekKind() != '"' {
			if _, err := dec.ReadToken(); errors.Is(err, io.EOF) {
				return append(out, v[copied:]...), nil
			} else if err != nil {
				return nil, fmt.Errorf("read payload: %w", err)
			}
			continue
		}
		raw, err := dec.ReadValue()
		if err != nil {
			return nil, fmt.Errorf("read payload: %w", err)
		}
		s, _ := jsonx.StringOf(raw)
		if changed := change(s); changed != s {
			end := int(dec.InputOffset())
			out = append(out, v[copied:end-len(raw)]...)
			out, _ = jsonx.AppendQuote(out, changed)
			copied = end
		}
	}
}

// maxSessions bounds what a guard remembers.
const maxSessions = 10_000

// guard denies that a secret which one server answered goes to another server in the same session.
type guard struct {
	secrets *regexp.Regexp

	mu       sync.Mutex // covers sessions
	sessions map[string]*guarded
}

type guarded struct {
	inFlight string            // server of the request whose answer comes next
	origins  map[string]string // secret to the server that answered it first
}

func newGuard() *guard { return &guard{secrets: secretPattern(), sessions: map[string]*guarded{}} }

func (g *guard) validate(_ context.Context, call *interceptor.Call) (interceptor.Verdict, error) {
	found := map[string]bool{}
	if _, err := mapStrings(call.Payload, func(s string) string {
		for _, secret := range g.secrets.FindAllString(s, -1) {
			found[secret] = true
		}
		return s
	}); err != nil {
		return interceptor.Verdict{}, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	session := g.sessions[call.SessionID()]
	if session == nil {
		if len(g.sessions) >= maxSessions {
			return interceptor.Verdict{}, errors.New("too many sessions")
		}
		session = &guarded{origins: map[string]string{}}
		g.sessions[call.SessionID()] = session
	}
	if call.Phase == schemas.PhaseResponse {
		for secret := range found {
			if session.origins[secret] == "" {
				session.origins[secret] = session.inFlight
			}
		}
		return interceptor.Pass(), nil
	}
	target := serverOf(call)
	for secret := range found {
		if origin := session.origins[secret]; origin != "" && origin != target {
			return interceptor.Deny("a secret of " + origin + " may not go to " + target), nil
		}
	}
	session.inFlight = target
	return interceptor.Pass(), nil
}

// serverOf says which server a request goes to.
func serverOf(call *interceptor.Call) string {
	if uri, ok := wire.MemberString(call.Payload, "uri"); ok {
		scheme, rest, _ := strings.Cut(uri, "://")
		if authority, _, _ := strings.Cut(rest, "/"); authority != "" {
			return authority
		}
		return scheme
	}
	tool, _ := wire.MemberString(call.Payload, "name")
	switch tool {
	case "read_file", "write_file", "move_file", "list_directory", "search_files":
		return "filesystem"
	case "read_query", "write_query", "list_tables", "describe_table":
		return "sqlite"
	}
	if prefix, _, ok := strings.Cut(tool, "_"); ok {
		return prefix
	}
	return tool
}
