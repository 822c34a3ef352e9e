package chain

import (
	"strings"

	"github.com/chaintrail/chaintrail/chain/interceptor"
	"github.com/chaintrail/chaintrail/schemas"
)

// The wildcard, and older spellings that bind it to a phase, whatever the phase of the hook.
const (
	anyEvent         = "*"
	anyRequestEvent  = "*/request"
	anyResponseEvent = "*/response"
)

// MatchHooks reports whether any hook matches an event in a phase.
func MatchHooks(hooks []schemas.Hook, event string, phase schemas.Phase) bool {
	for i := range hooks {
		if hooks[i].Phase != phase {
			continue
		}
		for _, pattern := range hooks[i].Events {
			if interceptor.Match(pattern, event, phase) {
				return true
			}
		}
	}
	return false
}

// covers reports whether everything that pattern matches in a phase is matched by hooks too.
func covers(hooks []schemas.Hook, pattern string, phase schemas.Phase) bool {
	pattern = plain(pattern, phase)
	for i := range hooks {
		if hooks[i].Phase != phase {
			continue
		}
		for _, wide := range hooks[i].Events {
			if wide = plain(wide, phase); wide == pattern || wide == anyEvent {
				return true
			}
			if pattern == anyEvent {
				continue
			}
			// "ns/*" covers "ns/op" and "ns/sub/*", which begin with "ns/".
			if ns, ok := strings.CutSuffix(wide, "*"); ok && strings.HasSuffix(ns, "/") && len(pattern) > len(ns) &&
				strings.HasPrefix(pattern, ns) {
				return true
			}
		}
	}
	return false
}

// plain turns a wildcard bound to this very phase into the plain one.
func plain(pattern string, phase schemas.Phase) string {
	if (pattern == anyRequestEvent && phase == schemas.PhaseRequest) ||
		(pattern == anyResponseEvent && phase == schemas.PhaseResponse) {
		return anyEvent
	}
	return pattern
}
