package config

import (
	"fmt"

	"github.com/chaintrail/chaintrail/chain/builtin"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

// Instance is how the built-in of a host is made; its configuration travels with each call.
func (h *Host) Instance(version, stateDir string) (builtin.Options, error) {
	o := builtin.Options{As: h.As, Version: version, StateDir: stateDir}
	if h.Config == nil {
		return o, nil
	}
	encoded, err := jsonx.Marshal(h.Config)
	if err != nil {
		return o, fmt.Errorf("config: %w", err)
	}
	o.Config = encoded
	return o, nil
}

// InterceptorName is the name of a built-in in the plan.
func (h *Host) InterceptorName() string {
	if h.As != "" {
		return h.As
	}
	return h.Builtin
}

func (c *checker) builtin(key string, h Host) {
	if h.URL != "" || len(h.Command) > 0 || h.Interceptors != nil {
		c.add(key, "has builtin and also url, command or configs; keep builtin with config, or the others")
		return
	}
	o, err := h.Instance("", "")
	if err != nil {
		c.add(key+".config", "%v", err)
		return
	}
	if _, err := builtin.New(h.Builtin, &o); err != nil {
		c.add(key+".config", "%v", err)
	}
}
