package gateway

import (
	"sync"
	"uuid"

	"github.com/chaintrail/chaintrail/schemas/jsonx"
	"github.com/chaintrail/chaintrail/schemas/seal"
)

const (
	maxListed    = 10_000 // names for each backend
	maxNameBytes = 256
	maxCalls     = 4_096
)

// nameSet holds the tool and prompt names that a backend listed: only these may be sealed in clear.
type nameSet struct {
	mu    sync.RWMutex // guards names
	names map[string]struct{}
}

func newNameSet() *nameSet { return &nameSet{names: make(map[string]struct{})} }

func (s *nameSet) has(method, name string) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	_, ok := s.names[listOf(method)+"\x00"+name]
	return ok
}

// learn takes the names from a result of tools/list or prompts/list, as the server sent it.
func (s *nameSet) learn(method string, result jsonx.Value) {
	member, ok := jsonx.Lookup(result, map[string]string{methodToolsList: "tools", methodPromptsList: "prompts"}[method])
	if !ok {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for entry := range jsonx.Elements(member) {
		raw, ok := jsonx.Lookup(entry, "name")
		if !ok {
			continue
		}
		name, ok := jsonx.StringOf(raw)
		if !ok || name == "" || len(name) > maxNameBytes || len(s.names) >= maxListed {
			continue
		}
		s.names[method+"\x00"+name] = struct{}{}
	}
}

func listOf(method string) string {
	switch method {
	case methodToolsCall:
		return methodToolsList
	case methodPromptsGet:
		return methodPromptsList
	}
	return ""
}

// callTable joins the rounds of one call (MRTR): the state that a result hands out leads the
// retried request back to the call. It holds keyed digests, never the state itself.
type callTable struct {
	mu    sync.Mutex // guards what follows
	calls map[seal.Pseudonym]uuid.UUID
	order []seal.Pseudonym // ring of insertion
	next  int
}

func newCallTable() *callTable { return &callTable{calls: make(map[seal.Pseudonym]uuid.UUID)} }

func (t *callTable) put(state seal.Pseudonym, call uuid.UUID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, known := t.calls[state]; !known {
		if len(t.order) < maxCalls {
			t.order = append(t.order, state)
		} else {
			delete(t.calls, t.order[t.next])
			t.order[t.next] = state
			t.next = (t.next + 1) % maxCalls
		}
	}
	t.calls[state] = call
}

func (t *callTable) get(state seal.Pseudonym) (uuid.UUID, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	call, ok := t.calls[state]
	return call, ok
}
