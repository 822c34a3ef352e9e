package exchange

import (
	"bytes"
	"context"
	"encoding/json" //nolint:depguard // the SDK's types are written for this encoder, and it only encodes them
	"fmt"
	"reflect"

	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

// Encode returns the JSON of params or a result of the go-sdk; nil for nil and for a pointer to nothing.
func Encode(v any) (jsonx.Value, error) {
	if isNil(v) {
		return nil, nil
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, fmt.Errorf("encode %T: %w", v, err)
	}
	return bytes.TrimRight(b.Bytes(), "\n"), nil
}

// metaHolder is what params and results of the SDK have in common.
type metaHolder interface {
	GetMeta() map[string]any
	SetMeta(meta map[string]any)
}

// Decode puts a changed payload into a fresh value, which is a pointer, so that nothing of the old one stays. The _meta of
// what it was made of is kept unless the payload has its own: it holds what the session needs, such as a progress token.
func Decode(changed jsonx.Value, fresh, old any) error {
	if err := jsonx.Unmarshal(changed, fresh); err != nil {
		return fmt.Errorf("decode what an interceptor made of a %T: %w", fresh, err)
	}
	if _, has := jsonx.Lookup(changed, "_meta"); has || isNil(old) {
		return nil
	}
	to, ok := fresh.(metaHolder)
	from, had := old.(metaHolder)
	if ok && had {
		if meta := from.GetMeta(); meta != nil {
			to.SetMeta(meta)
		}
	}
	return nil
}

// isNil tells whether an interface holds nothing, or a pointer to nothing.
func isNil(v any) bool {
	if v == nil {
		return true
	}
	r := reflect.ValueOf(v)
	return r.Kind() == reflect.Pointer && r.IsNil()
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
	accept := req.Accept
	req.Accept = func(changed jsonx.Value) error {
		fresh := new(R)
		if err := Decode(changed, fresh, result); err != nil {
			return err
		}
		result = fresh
		if accept != nil {
			return accept(changed)
		}
		return nil
	}
	_, err = r.Do(ctx, &req, func(ctx context.Context, sent Message) (jsonx.Value, error) {
		use := params
		if sent.Changed {
			use = new(P)
			if err := Decode(sent.Payload, use, params); err != nil {
				return nil, err
			}
		}
		got, err := call(ctx, use)
		if err != nil {
			return nil, err
		}
		result = got
		return Encode(got)
	})
	if err != nil {
		return nil, err
	}
	return result, nil
}
