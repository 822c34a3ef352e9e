package builtin

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/google/renameio/v2"

	"github.com/chaintrail/chaintrail/chain/interceptor"
	"github.com/chaintrail/chaintrail/chain/wire"
	"github.com/chaintrail/chaintrail/schemas"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

// ChangesConfig says what follows from a change.
type ChangesConfig struct {
	OnChange string   `json:"on_change,omitzero" jsonschema:"for a tool that is no longer as it was first listed: deny (default) or warn"`
	OnNew    string   `json:"on_new,omitzero"    jsonschema:"for a tool that the first listing did not have: warn (default), deny or allow"`
	Accept   []string `json:"accept,omitempty"   jsonschema:"digests, as a message tells them, of tools that are accepted"`
}

// toolsKnown bounds the tools that are remembered; a server that lists more is refused.
const toolsKnown = 10_000

// stateFile is where tools are remembered, in Options.StateDir.
const stateFile = "tool-changes.json"

func toolChanges() kind {
	return kind{interceptor.Descriptor{
		Name:        Namespace + "tool-changes",
		Description: "Blocks lists with tools whose description, schema or annotations changed since they were first listed",
		Hooks:       interceptor.OnResponse("tools/list"),
		ConfigSchema: schemaFor[ChangesConfig](func(s *jsonschema.Schema) {
			enum(s.Properties["on_change"], "deny", "warn")
			enum(s.Properties["on_new"], "allow", "warn", "deny")
		}),
	}, func(d interceptor.Descriptor, o *Options) (interceptor.Interceptor, error) {
		all, err := newSettings(o.Config, func(c *ChangesConfig) (*ChangesConfig, error) {
			return c, errors.Join(oneOf("on_change", c.OnChange, "deny", "warn"), oneOf("on_new", c.OnNew, "allow", "warn", "deny"))
		})
		if err != nil {
			return interceptor.Interceptor{}, err
		}
		m := &toolMemory{servers: map[string]*toolServer{}}
		if o.StateDir != "" {
			m.path = filepath.Join(o.StateDir, stateFile)
			if err := m.load(); err != nil {
				return interceptor.Interceptor{}, err
			}
		}
		return interceptor.Validator(d, func(_ context.Context, call *interceptor.Call) (interceptor.Verdict, error) {
			c, err := all.of(call)
			if err != nil {
				return interceptor.Verdict{}, err
			}
			return m.judge(c, call)
		}), nil
	}}
}

// toolMemory holds what tools were like when they were first listed.
type toolMemory struct {
	path string // of the file; empty: none

	mu      sync.Mutex // covers the rest, and is held while the file is written
	servers map[string]*toolServer
	count   int
}

type toolServer struct {
	Complete bool              `json:"complete"` // a list was read to its end: what comes later is new
	Tools    map[string]string `json:"tools"`    // digest by name
}

// load reads the file, if there is one.
func (m *toolMemory) load() error {
	text, err := os.ReadFile(m.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read known tools: %w", err)
	}
	if err := jsonx.UnmarshalStrict(text, &m.servers); err != nil || m.servers == nil {
		return fmt.Errorf("%s is damaged; look at it, and remove it to learn the tools anew: %w", m.path, err)
	}
	for name, s := range m.servers {
		if s == nil || s.Tools == nil {
			return fmt.Errorf("%s is damaged at %q; look at it, and remove it to learn the tools anew", m.path, name)
		}
		m.count += len(s.Tools)
	}
	return nil
}

func (m *toolMemory) save() error {
	if m.path == "" {
		return nil
	}
	text, err := jsonx.MarshalDeterministic(m.servers)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(m.path), 0o700); err != nil {
		return fmt.Errorf("write known tools: %w", err)
	}
	if err := renameio.WriteFile(m.path, append(text, '\n'), 0o600); err != nil {
		return fmt.Errorf("write known tools: %w", err)
	}
	return nil
}

func (m *toolMemory) judge(c *ChangesConfig, call *interceptor.Call) (interceptor.Verdict, error) {
	caller, err := call.Caller()
	if err != nil {
		return interceptor.Verdict{}, err
	}
	listed, ok := wire.Member(call.Payload, "tools")
	if !ok || listed.Kind() != '[' {
		return interceptor.Pass(), nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	server := m.servers[caller.Server]
	if server == nil {
		server = &toolServer{Tools: map[string]string{}}
		m.servers[caller.Server] = server
	}
	v, learned, err := m.compare(c, server, listed)
	if err != nil {
		return interceptor.Verdict{}, err
	}
	if next, more := wire.MemberString(call.Payload, "nextCursor"); !server.Complete && (!more || next == "") {
		server.Complete, learned = true, true
	}
	if learned {
		err = m.save()
	}
	return v, err
}

// compare judges each tool of a page and learns those that are accepted.
func (m *toolMemory) compare(c *ChangesConfig, server *toolServer, listed jsonx.Value) (v interceptor.Verdict, learned bool, err error) {
	i := -1
	for tool := range jsonx.Elements(listed) {
		i++
		name := toolOf(tool)
		digest, err := toolDigest(tool)
		if err != nil {
			return v, false, fmt.Errorf("tool %d: %w", i, err)
		}
		known, seen := server.Tools[name]
		severity := schemas.Severity("")
		switch accepted := slices.Contains(c.Accept, digest); {
		case seen && known == digest:
			continue
		case accepted, !seen && !server.Complete, !seen && c.OnNew == "allow":
		case seen:
			severity = severityOf(c.OnChange, "deny")
			v.Messages = append(v.Messages, toolMessage(i, name, "changed", digest, severity))
		default:
			severity = severityOf(c.OnNew, "warn")
			v.Messages = append(v.Messages, toolMessage(i, name, "is new", digest, severity))
		}
		if severity == schemas.SeverityError {
			v.Severity = severity
			continue
		}
		if severity != "" && v.Severity == "" {
			v.Severity = severity
		}
		if seen && severity != "" {
			continue // warned of each time, until it is accepted
		}
		if !seen {
			if m.count >= toolsKnown {
				return v, false, fmt.Errorf("more than %d tools are listed", toolsKnown)
			}
			m.count++
		}
		server.Tools[name], learned = digest, true
	}
	v.Valid = v.Severity == ""
	if len(v.Messages) > maxMessages {
		v.Messages = append(v.Messages[:maxMessages], interceptor.Message{Message: fmt.Sprintf("and %d more", len(v.Messages)-maxMessages)})
	}
	return v, learned, nil
}

func severityOf(action, fallback string) schemas.Severity {
	if action == "" {
		action = fallback
	}
	if action == "deny" {
		return schemas.SeverityError
	}
	return schemas.SeverityWarn
}

func toolMessage(i int, name, what, digest string, severity schemas.Severity) interceptor.Message {
	if len(name) > maxPlace {
		name = strings.ToValidUTF8(name[:maxPlace], "") + "…"
	}
	return interceptor.Message{
		Path:     fmt.Sprintf("tools.%d", i),
		Message:  fmt.Sprintf("tool %q %s; accept it by its digest %s", name, what, digest),
		Severity: severity,
	}
}

// toolDigest is over everything that a model reads of a tool, whatever the order of its members.
func toolDigest(tool jsonx.Value) (string, error) {
	canonical, err := jsonx.Canonical(tool)
	if err != nil {
		return "", fmt.Errorf("read tool: %w", err)
	}
	sum := sha256.Sum256(canonical)
	return hex.EncodeToString(sum[:16]), nil
}
