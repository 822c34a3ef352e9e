package gateway

import (
	"context"
	"net/http"
	"slices"

	"github.com/chaintrail/chaintrail/chain"
	"github.com/chaintrail/chaintrail/chain/interceptor"
)

// ResolveRule says which requests go through which further interceptor servers. Every condition that is set has
// to hold; "*" in a pattern stands for any run of bytes.
type ResolveRule struct {
	Events     []string          // patterns of MCP methods
	Backends   []string          // patterns of backend names
	Targets    []string          // patterns of tool and prompt names, or of resource URIs
	Principals []string          // patterns of ids, of verified callers only
	Headers    map[string]string // pattern of a value, by header name
	Hosts      []chain.HostSpec
	Alone      bool // the plan in force for all is left out
}

// ResolveRules is a [Resolver] by rules: a request goes through the servers of every rule that holds for it, and
// without the plan in force if any of those says so.
type ResolveRules []ResolveRule

// Resolve implements [Resolver].
func (rules ResolveRules) Resolve(_ context.Context, r *Request) (Resolution, error) {
	var out Resolution
	for i := range rules {
		rule := &rules[i]
		if !rule.holds(r) {
			continue
		}
		out.Hosts = append(out.Hosts, rule.Hosts...)
		out.Alone = out.Alone || rule.Alone
	}
	return out, nil
}

func (rule *ResolveRule) holds(r *Request) bool {
	principal := r.Caller.Principal.ID
	if r.Caller.VerifiedBy == "" {
		principal = ""
	}
	if !oneOf(rule.Events, r.Event) || !oneOf(rule.Backends, r.Backend) || !oneOf(rule.Targets, r.Target) ||
		!oneOf(rule.Principals, principal) {
		return false
	}
	for name, pattern := range rule.Headers {
		if !slices.ContainsFunc(r.Headers[http.CanonicalHeaderKey(name)], func(v string) bool { return glob(pattern, v) }) {
			return false
		}
	}
	return true
}

// oneOf reports whether any pattern matches; without patterns everything does, but with some nothing matches what is
// not there.
func oneOf(patterns []string, value string) bool {
	return len(patterns) == 0 || value != "" && slices.ContainsFunc(patterns, func(p string) bool { return glob(p, value) })
}

func glob(pattern, value string) bool { return interceptor.Match(pattern, value, "") }
