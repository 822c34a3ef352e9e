package chain

import (
	"strings"

	"github.com/chaintrail/chaintrail/schemas"
)

// Older spellings that bind a wildcard to a phase, whatever the phase of the hook.
const (
	anyEvent         = "*"
	anyRequestEvent  = "*/request"
	anyResponseEvent = "*/response"
)

// matchEvent reports whether a hook's event pattern matches an event in a phase: "*" matches every event, "*/request"
// and "*/response" every event of that phase, any other "*" stands for any run of characters ("tools/*").
func matchEvent(pattern, event string, phase schemas.Phase) bool {
	switch pattern {
	case event, anyEvent:
		return true
	case anyRequestEvent:
		return phase == schemas.PhaseRequest
	case anyResponseEvent:
		return phase == schemas.PhaseResponse
	}
	if strings.IndexByte(pattern, '*') < 0 {
		return false
	}
	return glob(pattern, event)
}

// glob matches text against a pattern in which "*" stands for any run of bytes. It does not recurse.
func glob(pattern, text string) bool {
	p, t, star, mark := 0, 0, -1, 0
	for t < len(text) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, mark = p, t
			p++
		case p < len(pattern) && pattern[p] == text[t]:
			p++
			t++
		case star >= 0:
			mark++
			p, t = star+1, mark
		default:
			return false
		}
	}
	for p < len(pattern) && pattern[p] == '*' {
		p++
	}
	return p == len(pattern)
}

// matchHooks reports whether any hook matches.
func matchHooks(hooks []schemas.Hook, event string, phase schemas.Phase) bool {
	for i := range hooks {
		if hooks[i].Phase != phase {
			continue
		}
		for _, pattern := range hooks[i].Events {
			if matchEvent(pattern, event, phase) {
				return true
			}
		}
	}
	return false
}

// covers reports whether everything that pattern matches in a phase is matched by hooks too. It may say no where a
// cleverer comparison of two patterns would say yes, never yes where it must say no.
func covers(hooks []schemas.Hook, pattern string, phase schemas.Phase) bool {
	if pattern == anyRequestEvent || pattern == anyResponseEvent {
		if matchEvent(pattern, "", phase) {
			pattern = anyEvent
		}
	}
	for i := range hooks {
		if hooks[i].Phase != phase {
			continue
		}
		for _, wide := range hooks[i].Events {
			if matchEvent(anyEventOf(wide, phase), pattern, phase) {
				return true
			}
		}
	}
	return false
}

// anyEventOf turns a wildcard bound to this very phase into the plain one.
func anyEventOf(pattern string, phase schemas.Phase) string {
	if (pattern == anyRequestEvent && phase == schemas.PhaseRequest) ||
		(pattern == anyResponseEvent && phase == schemas.PhaseResponse) {
		return anyEvent
	}
	return pattern
}
