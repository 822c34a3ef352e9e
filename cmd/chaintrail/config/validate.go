package config

import (
	"fmt"
	"net"
	"regexp"
	"slices"
	"strings"
	"time"
)

type fault struct{ key, text string }

var nameRE = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$`)

// pathRE is for names that become a path of the HTTP front.
var pathRE = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,62}[a-z0-9])?$`)

type checker struct{ faults []fault }

func (c *checker) add(key, format string, args ...any) {
	c.faults = append(c.faults, fault{key, fmt.Sprintf(format, args...)})
}

func (c *checker) name(key, value string) {
	if !nameRE.MatchString(value) {
		c.add(key, "%q is not a name: use 1 to 63 letters, digits, dots, dashes or underscores", value)
	}
}

func (c *checker) oneOf(key, value string, allowed ...string) {
	if !slices.Contains(allowed, value) {
		c.add(key, "%q is not one of %s", value, strings.Join(allowed, ", "))
	}
}

func (c *checker) address(key, value string, optional bool) {
	if value == "" && optional {
		return
	}
	if _, _, err := net.SplitHostPort(value); err != nil {
		c.add(key, "%q is not an address: write host:port, such as 127.0.0.1:8787", value)
	}
}

func (c *checker) notNegative(key string, d time.Duration) {
	if d < 0 {
		c.add(key, "%s is negative", d)
	}
}

// endpoint checks that exactly one of url and command is there.
func (c *checker) endpoint(key, url string, command []string) {
	switch {
	case url == "" && len(command) == 0:
		c.add(key, "has neither url nor command; give one of them")
	case url != "" && len(command) > 0:
		c.add(key, "has both url and command; keep one of them")
	case url != "" && !ValidURL(url):
		c.add(key+".url", "%q is not an http or https URL", url)
	}
}

func (c Config) validate() []fault {
	var k checker
	k.name("tenant", c.Tenant)
	if c.Data == "" {
		k.add("data", "is empty; name a directory")
	}
	k.gateway(c.Gateway)
	k.backends(c.Backends)
	k.resolve(c)
	k.hosts(c.Interceptors)
	k.journal(c.Journal)
	k.policy(c.Policy)
	k.oneOf("snapshots", c.Snapshots, "allow", "deny")
	k.bus(c.Bus)
	k.clickhouse(c.ClickHouse)
	k.sinks(c.Sinks)
	k.seal(c.Seal)
	k.oneOf("log.level", c.Log.Level, "debug", "info", "warn", "error")
	k.oneOf("log.format", c.Log.Format, "auto", "text", "json")
	k.notNegative("drain_timeout", c.Drain)
	return k.faults
}

func (c *checker) gateway(g Gateway) {
	c.name("gateway.name", g.Name)
	c.address("gateway.listen", g.Listen, false)
	c.address("gateway.metrics", g.Metrics, true)
	c.oneOf("gateway.repair_schemas", g.RepairSchemas, "auto", "always", "never")
	c.oneOf("gateway.trace", g.Trace, "header", "forward", "off")
	c.oneOf("gateway.duplicates", g.Duplicates, "refuse", "keep", "first")
	for i, e := range g.Events {
		if e == "" {
			c.add(fmt.Sprintf("gateway.events[%d]", i), "is empty; write an event such as tools/call or tools/*")
		}
	}
	if p := g.Principal; p.Type != "" || p.ID != "" || len(p.Claims) > 0 {
		c.oneOf("gateway.principal.type", p.Type, "user", "service")
		if p.ID == "" {
			c.add("gateway.principal.id", "is empty; name the caller, or leave the principal out")
		}
	}
	c.oneOf("gateway.deny.as", g.Deny.As, "error", "result")
	c.oneOf("gateway.deny.detail", g.Deny.Detail, "sep", "generic")
	if g.Breaker.Failures < 1 {
		c.add("gateway.breaker.failures", "%d is no number of failures: write 1 or more; a large one is never reached", g.Breaker.Failures)
	}
	if g.Breaker.Pause <= 0 || g.Breaker.MaxPause < g.Breaker.Pause {
		c.add("gateway.breaker", "pause %s and max_pause %s: pause is more than 0, and max_pause at least pause", g.Breaker.Pause, g.Breaker.MaxPause)
	}
	c.notNegative("gateway.chain_timeout", g.ChainTimeout)
	c.notNegative("gateway.refresh", g.RefreshEvery)
	if g.MaxDepth < 1 {
		c.add("gateway.max_depth", "%d is not a depth: write 1 or more", g.MaxDepth)
	}
	if g.MaxBody < 1<<10 {
		c.add("gateway.max_body", "%s is too small: write 1 KiB or more", g.MaxBody)
	}
}

func (c *checker) backends(backends []Backend) {
	seen := map[string]int{}
	for i, b := range backends {
		key := fmt.Sprintf("backends[%d]", i)
		if !pathRE.MatchString(b.Name) {
			c.add(key+".name", "%q is not a path: use 1 to 64 of a-z, 0-9 and dashes, with no dash at either end", b.Name)
		}
		c.endpoint(key, b.URL, b.Command)
		if b.Transport != "" {
			c.oneOf(key+".transport", b.Transport, "http", "sse")
			if b.URL == "" {
				c.add(key+".transport", "is for a url, and there is none; leave it out")
			}
		}
		if b.Bridge != "" {
			c.oneOf(key+".bridge", b.Bridge, "auto", "always", "off")
		}
		if first, ok := seen[b.Name]; ok {
			c.add(key+".name", "%q is the name of backends[%d] too; names are paths, so each is used once", b.Name, first)
		}
		seen[b.Name] = i
	}
}

// resolve checks that rules and dynamic servers belong together.
func (c *checker) resolve(cfg Config) {
	named := map[string]bool{}
	for i, r := range cfg.Gateway.Resolve {
		key := fmt.Sprintf("gateway.resolve[%d]", i)
		if len(r.Interceptors) == 0 && !r.Alone {
			c.add(key, "names no interceptors; list servers with dynamic: true, or set alone")
		}
		for _, name := range r.Interceptors {
			named[name] = true
			if !slices.ContainsFunc(cfg.Interceptors, func(h Host) bool { return h.Name == name && h.Dynamic }) {
				c.add(key+".interceptors", "%q is not an interceptor server with dynamic: true", name)
			}
		}
	}
	for i, h := range cfg.Interceptors {
		if h.Dynamic && !named[h.Name] {
			c.add(fmt.Sprintf("interceptors[%d].dynamic", i), "no rule of gateway.resolve names %q, so that it would never run", h.Name)
		}
	}
	c.notNegative("gateway.resolve_idle", cfg.Gateway.ResolveIdle)
}

func (c *checker) hosts(hosts []Host) {
	seen := map[string]int{}
	for i, h := range hosts {
		key := fmt.Sprintf("interceptors[%d]", i)
		c.name(key+".name", h.Name)
		if h.Builtin == "" {
			c.endpoint(key, h.URL, h.Command)
			if h.As != "" || h.Config != nil {
				c.add(key, "has as or config without builtin; the configurations of a server's interceptors go under configs: by name")
			}
		} else {
			c.builtin(key, h)
		}
		c.notNegative(key+".timeout", h.Timeout)
		c.patterns(key+".only", h.Only)
		if first, ok := seen[h.Name]; ok {
			c.add(key+".name", "%q is the name of interceptors[%d] too", h.Name, first)
		}
		seen[h.Name] = i
		for name, o := range h.Overrides {
			c.override(key+".overrides."+name, o)
		}
	}
}

func (c *checker) override(key string, o Override) {
	c.oneOf(key+".mode", o.Mode, "", "active", "audit")
	c.notNegative(key+".timeout", o.Timeout)
	if o.Retries != nil && *o.Retries < 0 {
		c.add(key+".retries", "%d is negative; write 0 for no second try", *o.Retries)
	}
	c.rollOut(key, o)
	for i, h := range o.Hooks {
		c.oneOf(fmt.Sprintf("%s.hooks[%d].phase", key, i), h.Phase, "request", "response", "both")
		if len(h.Events) == 0 {
			c.add(fmt.Sprintf("%s.hooks[%d].events", key, i), "is empty; name at least one event, or \"*\"")
		}
	}
}

// rollOut checks what concerns a canary, sampling and the budget.
func (c *checker) rollOut(key string, o Override) {
	c.notNegative(key+".budget", o.Budget)
	if o.Sample != nil {
		c.percentage(key+".sample", *o.Sample)
	}
	e := o.Enforce
	if e == nil {
		return
	}
	if o.Mode == "audit" {
		c.add(key+".enforce", "is for nobody where mode is audit; remove one of them")
	}
	c.percentage(key+".enforce.percent", e.Percent)
	c.patterns(key+".enforce.tenants", e.Tenants)
	c.patterns(key+".enforce.tools", e.Tools)
	c.patterns(key+".enforce.principals", e.Principals)
}

func (c *checker) percentage(key string, p float64) {
	if !(p >= 0 && p <= 100) {
		c.add(key, "%v is no percentage: write a number from 0 to 100", p)
	}
}

func (c *checker) patterns(key string, patterns []string) {
	for i, p := range patterns {
		if p == "" {
			c.add(fmt.Sprintf("%s[%d]", key, i), "is empty; write a name, in which * stands for any text")
		}
	}
}

func (c *checker) journal(j Journal) {
	for _, d := range []struct{ key, value string }{
		{"request", j.Durability.Request},
		{"outcome", j.Durability.Outcome},
		{"deferred", j.Durability.Deferred},
		{"control", j.Durability.Control},
	} {
		c.oneOf("journal.durability."+d.key, d.value, "process", "disk")
	}
	c.oneOf("journal.on_full", j.OnFull, "fail", "block", "shed")
	c.notNegative("journal.keep", j.Keep)
	if j.Segment < 1<<20 {
		c.add("journal.segment_bytes", "%s is too small: write 1 MiB or more", j.Segment)
	}
	if j.MaxBytes < 4*j.Segment {
		c.add("journal.max_bytes", "%s is too small: at least four segments (%s) must fit", j.MaxBytes, 4*j.Segment)
	}
}

func (c *checker) policy(rules []PolicyRule) {
	for i, r := range rules {
		key := fmt.Sprintf("policy[%d]", i)
		c.oneOf(key+".keep", r.Keep, "none", "digest", "redacted", "full")
		for _, p := range r.Phase {
			c.oneOf(key+".phase", p, "request", "response")
		}
		for _, o := range r.Outcome {
			c.oneOf(key+".outcome", o, "allowed", "denied", "error", "cancelled", "lost", "stopped")
		}
	}
}

func (c *checker) bus(b Bus) {
	if b.URL == "" {
		c.address("bus.listen", b.Listen, true)
	}
	for server := range strings.SplitSeq(b.URL, ",") {
		if b.URL != "" && !natsURL(strings.TrimSpace(server)) {
			c.add("bus.url", "%q is not a NATS URL: write nats://host:4222 or tls://host:4222, several with commas between", server)
		}
	}
	if b.Replicas < 1 || b.Replicas > 5 || b.Replicas%2 == 0 {
		c.add("bus.replicas", "%d is not a number of replicas: write 1, 3 or 5", b.Replicas)
	}
	if b.TokenFile != "" && b.CredsFile != "" {
		c.add("bus", "has both token_file and credentials; keep one of them")
	}
}

func (c *checker) clickhouse(h ClickHouse) {
	if h.MaxMemory != 0 && h.MaxMemory < 512<<20 {
		c.add("clickhouse.max_memory", "%s is too little for the engine: write 512 MiB or more", h.MaxMemory)
	}
	if h.DSN != "" && h.MaxMemory != 0 {
		c.add("clickhouse.max_memory", "bounds the embedded engine only; remove it or dsn")
	}
}

// ledgerRE is for names of ledgers: they stand in signatures.
var ledgerRE = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._/-]{0,127}$`)

func (c *checker) seal(s Seal) {
	if s.Name != "" && !ledgerRE.MatchString(s.Name) {
		c.add("seal.name", "%q is not a name: use 1 to 128 letters, digits, dots, slashes, dashes or underscores, such as audit.example.com", s.Name)
	}
	if s.Every < 100*time.Millisecond {
		c.add("seal.every", "%s is too short: write 100ms or more", s.Every)
	}
	if s.Events < 1 {
		c.add("seal.events", "%d is no number of events: write 1 or more", s.Events)
	}
	seen := map[string]bool{}
	for i, a := range s.Anchors {
		key := fmt.Sprintf("seal.anchors[%d]", i)
		c.name(key+".name", a.Name)
		c.oneOf(key+".type", a.Type, "file", "webhook")
		if a.Type == "file" && a.Path == "" {
			c.add(key+".path", "is empty; name the file that heads are appended to")
		}
		if a.Type == "webhook" && !ValidURL(a.URL) {
			c.add(key+".url", "%q is not an http or https URL", a.URL)
		}
		if seen[a.Name] {
			c.add(key+".name", "%q is the name of another anchor too", a.Name)
		}
		seen[a.Name] = true
	}
}

func (c *checker) sinks(sinks []Sink) {
	for i, s := range sinks {
		key := fmt.Sprintf("sinks[%d]", i)
		c.oneOf(key+".type", s.Type, "file", "stdout")
		if s.Type == "file" && s.Path == "" {
			c.add(key+".path", "is empty; name the file to write")
		}
	}
}
