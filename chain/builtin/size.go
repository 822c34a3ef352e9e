package builtin

import (
	"context"
	"fmt"

	"github.com/chaintrail/chaintrail/chain/interceptor"
	"github.com/chaintrail/chaintrail/schemas"
)

// Bounds of a message where the configuration has none, in bytes.
const (
	DefaultMaxRequest  = 1 << 20
	DefaultMaxResponse = 8 << 20
)

// SizeConfig bounds messages.
type SizeConfig struct {
	MaxRequest  int        `json:"max_request,omitzero"  jsonschema:"bytes of the params of a request; default 1 MiB"`
	MaxResponse int        `json:"max_response,omitzero" jsonschema:"bytes of a result; default 8 MiB"`
	Tools       []SizeRule `json:"tools,omitempty"       jsonschema:"other bounds for some tools, prompts or resources; the first that matches holds"`
}

// SizeRule bounds the messages of some tools.
type SizeRule struct {
	Names       []string `json:"names"                 jsonschema:"names, with * for any run of characters"`
	MaxRequest  int      `json:"max_request,omitzero"  jsonschema:"bytes; default: as for all"`
	MaxResponse int      `json:"max_response,omitzero" jsonschema:"bytes; default: as for all"`
}

func sizeLimit() kind {
	return kind{interceptor.Descriptor{
		Name: Namespace + "size-limit", Description: "Blocks messages above a number of bytes",
		Hooks: interceptor.Both("*"), ConfigSchema: schemaFor[SizeConfig](nil),
	}, func(d interceptor.Descriptor, o *Options) (interceptor.Interceptor, error) {
		all, err := newSettings(o.Config, buildSize)
		return interceptor.Validator(d, func(_ context.Context, call *interceptor.Call) (interceptor.Verdict, error) {
			c, err := all.of(call)
			if err != nil {
				return interceptor.Verdict{}, err
			}
			limit, err := c.limit(call)
			if err != nil {
				return interceptor.Verdict{}, err
			}
			if len(call.Payload) <= limit {
				return interceptor.Pass(), nil
			}
			return interceptor.Deny(fmt.Sprintf("%s of %d bytes; at most %d are allowed", call.Phase, len(call.Payload), limit)), nil
		}), err
	}}
}

func buildSize(c *SizeConfig) (*SizeConfig, error) {
	if c.MaxRequest == 0 {
		c.MaxRequest = DefaultMaxRequest
	}
	if c.MaxResponse == 0 {
		c.MaxResponse = DefaultMaxResponse
	}
	if c.MaxRequest < 0 || c.MaxResponse < 0 {
		return nil, fmt.Errorf("%w: max_request and max_response must be positive", ErrConfig)
	}
	for i, r := range c.Tools {
		if len(r.Names) == 0 || r.MaxRequest < 0 || r.MaxResponse < 0 {
			return nil, fmt.Errorf("%w: tools[%d] needs names, and bounds that are not negative", ErrConfig, i)
		}
	}
	return c, nil
}

// limit is the bound for a message.
func (c *SizeConfig) limit(call *interceptor.Call) (int, error) {
	request := call.Phase == schemas.PhaseRequest
	general := c.MaxResponse
	if request {
		general = c.MaxRequest
	}
	if len(c.Tools) == 0 {
		return general, nil
	}
	name, err := targetOf(call)
	if err != nil {
		return 0, err
	}
	for _, r := range c.Tools {
		if name == "" || !anyGlob(r.Names, name) {
			continue
		}
		if own := r.MaxResponse; !request && own > 0 {
			return own, nil
		}
		if own := r.MaxRequest; request && own > 0 {
			return own, nil
		}
		break
	}
	return general, nil
}
