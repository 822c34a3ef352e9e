package exchange

import (
	"bytes"
	"context"
	"encoding/json" //nolint:depguard // the SDK's types are written for this encoder, and it only encodes them
	"fmt"

	"github.com/chaintrail/chaintrail/chain/wire"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

// Encode returns the JSON of a value of the go-sdk.
func Encode(v any) (jsonx.Value, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, fmt.Errorf("encode %T: %w", v, err)
	}
	return bytes.TrimRight(b.Bytes(), "\n"), nil
}

// Decode puts a changed payload into a fresh value, so that nothing of the old one stays. The _meta of what it was made
// of is kept unless the payload has its own: it holds what the session needs, such as a progress token.
func Decode[T any](changed, original jsonx.Value) (*T, error) {
	if _, has := jsonx.Lookup(changed, "_meta"); !has {
		if meta, had := jsonx.Lookup(original, "_meta"); had {
			changed = wire.WithMember(changed, "_meta", meta)
		}
	}
	v := new(T)
	if err := jsonx.Unmarshal(changed, v); err != nil {
		return nil, fmt.Errorf("decode what an interceptor made of a %T: %w", *v, err)
	}
	return v, nil
}

// DoTyped is [Runner.Do] for values of the go-sdk: req.Params is made of params. Values that no interceptor changed are
// handed on as they are; changed ones are fresh.
func DoTyped[P, R any](ctx context.Context, r *Runner, req Request, params *P, call func(context.Context, *P) (*R, error)) (*R, error) {
	if params == nil {
		params = new(P)
	}
	var err error
	if req.Params, err = Encode(params); err != nil {
		return nil, err
	}
	var result *R
	var came jsonx.Value
	back, err := r.Do(ctx, &req, func(ctx context.Context, sent Message) (jsonx.Value, error) {
		use := params
		if sent.Changed {
			fresh, err := Decode[P](sent.Payload, req.Params)
			if err != nil {
				return nil, err
			}
			use = fresh
		}
		got, err := call(ctx, use)
		if err != nil || got == nil {
			return nil, err
		}
		result = got
		came, err = Encode(got)
		return came, err
	})
	if err != nil {
		return nil, err
	}
	if back.Changed {
		return Decode[R](back.Payload, came)
	}
	return result, nil
}
