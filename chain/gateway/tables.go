package gateway

import (
	"sync"

	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

const (
	maxListed    = 10_000 // names for each backend
	maxNameBytes = 256
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
