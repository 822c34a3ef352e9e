package chain

import (
	"fmt"
	"slices"
	"time"

	"github.com/chaintrail/chaintrail/chain/interceptor"
	"github.com/chaintrail/chaintrail/schemas"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

// Defaults of a plan.
const (
	DefaultTimeout      = 5 * time.Second  // of one interceptor
	DefaultChainTimeout = 10 * time.Second // of all interceptors of one message
	DefaultRetries      = 5                // of deferred work: tries after the first
)

// DenyDetail says how much a caller is told about a block.
type DenyDetail string

// The details of a denial.
const (
	DenySEP     DenyDetail = "sep"     // data with interceptors, severities and messages (SEP-2624)
	DenyGeneric DenyDetail = "generic" // code and a fixed text only
)

// Duplicates says what becomes of interceptors of one name on several servers.
type Duplicates string

// The ways with duplicates.
const (
	DuplicatesRefuse Duplicates = "refuse" // the configuration is in error
	DuplicatesKeep   Duplicates = "keep"   // all run; each is named server/name
	DuplicatesFirst  Duplicates = "first"  // that of the first server runs, the others are noted as ignored
)

// Config is what holds for every interceptor of a plan. Zero values mean the defaults.
type Config struct {
	Server       string        // configured name of the MCP server that the plan stands before
	ChainTimeout time.Duration // for all interceptors of one message together; negative: none
	DenyDetail   DenyDetail    // empty means DenySEP
	Duplicates   Duplicates    // empty means DuplicatesRefuse
	Breakers     *Breakers     // nil: an interceptor is asked however often it failed
}

// HostConfig is what is configured about one interceptor server.
type HostConfig struct {
	// Ref.Host names the server and is required; URL, Command and Env tell deferred work how to reach it; Configs is
	// sent with each call of an interceptor.
	Ref       schemas.HostRef
	Envelope  bool                // send requests as {method, params} instead of bare params
	Timeout   time.Duration       // of an interceptor without one of its own; 0 means DefaultTimeout
	Only      []string            // patterns of interceptor names that are wanted, such as "acme/*"; empty: all
	Overrides map[string]Override // by interceptor name
}

// Override changes what a descriptor says. Zero values leave it.
type Override struct {
	Mode     schemas.Mode
	FailOpen *bool
	Priority *int32 // for both phases
	Timeout  time.Duration
	Retries  *int           // deferred work only: tries after the first
	Hooks    []schemas.Hook // in place of the descriptor's; MUST be narrower
	Envelope *bool
	Enforce  *Enforce      // active for these only, in audit mode for the rest; nil: for everybody
	Sample   *float64      // deferred work only: percentage of the messages, from 0 to 100
	Budget   time.Duration // deferred work only: invocation time per minute, in each process that does it; 0: no bound
}

func (c *Config) validate() error { // fills the defaults in
	if c.ChainTimeout == 0 {
		c.ChainTimeout = DefaultChainTimeout
	}
	switch c.Duplicates {
	case "":
		c.Duplicates = DuplicatesRefuse
	case DuplicatesRefuse, DuplicatesKeep, DuplicatesFirst:
	default:
		return fmt.Errorf("%w: duplicates %q is neither refuse, keep nor first", ErrConfig, c.Duplicates)
	}
	switch c.DenyDetail {
	case "":
		c.DenyDetail = DenySEP
	case DenySEP, DenyGeneric:
	default:
		return fmt.Errorf("%w: deny_detail %q is neither sep nor generic", ErrConfig, c.DenyDetail)
	}
	return nil
}

// validate finds what is wrong whatever the server lists.
func (h *HostConfig) validate() error {
	if h.Ref.Host == "" {
		return fmt.Errorf("%w: an interceptor server has no name", ErrConfig)
	}
	if h.Timeout < 0 {
		return fmt.Errorf("%w: server %q: timeout %v is negative", ErrConfig, h.Ref.Host, h.Timeout)
	}
	for name, o := range h.Overrides {
		fault := ""
		switch {
		case o.Mode != "" && o.Mode != schemas.ModeActive && o.Mode != schemas.ModeAudit:
			fault = fmt.Sprintf("mode %q is neither active nor audit", o.Mode)
		case o.Timeout < 0:
			fault = fmt.Sprintf("timeout %v is negative", o.Timeout)
		case o.Retries != nil && *o.Retries < 0:
			fault = fmt.Sprintf("retries %d is negative", *o.Retries)
		case o.Budget < 0:
			fault = fmt.Sprintf("budget %v is negative", o.Budget)
		case o.Sample != nil && (*o.Sample < 0 || *o.Sample > 100 || *o.Sample != *o.Sample):
			fault = fmt.Sprintf("sample %v is no percentage", *o.Sample)
		case o.Enforce != nil && (o.Enforce.Percent < 0 || o.Enforce.Percent > 100 || o.Enforce.Percent != o.Enforce.Percent):
			fault = fmt.Sprintf("enforce: percent %v is no percentage", o.Enforce.Percent)
		}
		for _, hook := range o.Hooks {
			if len(hook.Events) == 0 || (hook.Phase != schemas.PhaseRequest && hook.Phase != schemas.PhaseResponse) {
				fault = "a hook needs events and a phase, request or response"
			}
		}
		if fault != "" {
			return fmt.Errorf("%w: override of %q of server %q: %s", ErrConfig, name, h.Ref.Host, fault)
		}
	}
	for name, config := range h.Ref.Configs {
		traits, err := jsonx.Verify(config, 0)
		if err != nil || traits != (jsonx.Traits{}) {
			return fmt.Errorf("%w: config of %q of server %q is not valid JSON", ErrConfig, name, h.Ref.Host)
		}
	}
	return nil
}

// wants reports whether the name filter lets an interceptor in.
func (h *HostConfig) wants(name string) bool {
	return len(h.Only) == 0 || slices.ContainsFunc(h.Only, func(pattern string) bool {
		return interceptor.Match(pattern, name, "")
	})
}

// apply puts what is configured over what the descriptor says.
func (h *HostConfig) apply(entry *schemas.PlanEntry) error {
	o := h.Overrides[entry.Name]
	origin := func(what string) { entry.Origin = append(entry.Origin, "override."+what) }
	if o.Mode != "" {
		if entry.Type == schemas.TypeSink {
			return fmt.Errorf("%w: override of %q of server %q: a sink has no mode; remove mode",
				ErrConfig, entry.Name, h.Ref.Host)
		}
		entry.Mode = o.Mode
		origin("mode")
	}
	if o.FailOpen != nil {
		entry.FailOpen = *o.FailOpen
		origin("fail_open")
	}
	if o.Priority != nil {
		entry.PriorityRq, entry.PriorityRs = *o.Priority, *o.Priority
		origin("priority")
	}
	timeout := DefaultTimeout
	switch {
	case o.Timeout > 0:
		timeout = o.Timeout
		origin("timeout")
	case h.Timeout > 0:
		timeout = h.Timeout
		origin("timeout")
	}
	entry.TimeoutMS = max(1, timeout.Milliseconds())
	entry.Retries = DefaultRetries
	if o.Retries != nil {
		entry.Retries = *o.Retries
		origin("retries")
	}
	if len(o.Hooks) > 0 {
		for _, hook := range o.Hooks {
			for _, event := range hook.Events {
				if !covers(entry.Hooks, event, hook.Phase) {
					return fmt.Errorf("%w: override of %q of server %q: hook %s/%s is wider than the interceptor's own hooks",
						ErrConfig, entry.Name, h.Ref.Host, event, hook.Phase)
				}
			}
		}
		entry.Hooks = o.Hooks
		origin("hooks")
	}
	if err := o.rollOut(entry, origin); err != nil {
		return err
	}
	if entry.Envelope = h.Envelope; o.Envelope != nil {
		entry.Envelope = *o.Envelope
		origin("envelope")
	}
	return nil
}
