package middleware

import (
	"fmt"
	"reflect"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/chaintrail/chaintrail/chain/exchange"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

// decode puts a payload into a fresh value of the type, which replaces the old one.
func decode(payload jsonx.Value, typ reflect.Type, old any) (reflect.Value, error) {
	if typ.Kind() != reflect.Pointer {
		return reflect.Value{}, fmt.Errorf("a changed %s has no place to go", typ)
	}
	fresh := reflect.New(typ.Elem())
	return fresh, exchange.Decode(payload, fresh.Interface(), old)
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
