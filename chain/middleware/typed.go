package middleware

import (
	"bytes"
	"encoding/json" //nolint:depguard // the SDK's types are written for this encoder, and it only encodes them
	"fmt"
	"reflect"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

// isNil tells whether an interface holds nothing, or a pointer to nothing.
func isNil(v any) bool {
	if v == nil {
		return true
	}
	r := reflect.ValueOf(v)
	return r.Kind() == reflect.Pointer && r.IsNil()
}

// encode returns the JSON of params or a result; nil for none.
func encode(v any) (jsonx.Value, error) {
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

// decode puts a payload into a fresh value of the type, and keeps the _meta of the old one unless it has its own.
func decode(payload jsonx.Value, typ reflect.Type, old metaHolder) (reflect.Value, error) {
	if typ.Kind() != reflect.Pointer {
		return reflect.Value{}, fmt.Errorf("a changed %s has no place to go", typ)
	}
	fresh := reflect.New(typ.Elem())
	if err := jsonx.Unmarshal(payload, fresh.Interface()); err != nil {
		return reflect.Value{}, fmt.Errorf("decode what an interceptor made of a %s: %w", typ, err)
	}
	if _, has := jsonx.Lookup(payload, "_meta"); !has && !isNil(old) {
		if holder, ok := reflect.TypeAssert[metaHolder](fresh); ok {
			if meta := old.GetMeta(); meta != nil {
				holder.SetMeta(meta)
			}
		}
	}
	return fresh, nil
}

// withParams returns a copy of the request with other params.
func withParams(req mcp.Request, payload jsonx.Value) (mcp.Request, error) {
	old := reflect.ValueOf(req)
	if old.Kind() != reflect.Pointer || old.Elem().Kind() != reflect.Struct {
		return nil, fmt.Errorf("a %T has no params to change", req)
	}
	fresh := reflect.New(old.Type().Elem())
	fresh.Elem().Set(old.Elem())
	field := fresh.Elem().FieldByName("Params")
	if !field.IsValid() || !field.CanSet() {
		return nil, fmt.Errorf("a %T has no params to change", req)
	}
	params, err := decode(payload, field.Type(), req.GetParams())
	if err != nil {
		return nil, err
	}
	field.Set(params)
	changed, ok := reflect.TypeAssert[mcp.Request](fresh)
	if !ok {
		return nil, fmt.Errorf("a %T has no params to change", req)
	}
	return changed, nil
}

// withResult returns a fresh result of the same type.
func withResult(result mcp.Result, payload jsonx.Value) (mcp.Result, error) {
	fresh, err := decode(payload, reflect.TypeOf(result), result)
	if err != nil {
		return nil, err
	}
	changed, ok := reflect.TypeAssert[mcp.Result](fresh)
	if !ok {
		return nil, fmt.Errorf("a %T is no result", fresh.Interface())
	}
	return changed, nil
}
