package interceptor_test

import (
	"context"
	"errors"
	"testing"

	"github.com/chaintrail/chaintrail/chain/interceptor"
	"github.com/chaintrail/chaintrail/chain/wire"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

// Any schema and any config end in an answer.
func FuzzConfig(f *testing.F) {
	f.Add(`{"type":"object","properties":{"a":{"type":"integer","default":1}}}`, `{"a":2}`)
	f.Add(`{"type":"object","$ref":"#"}`, `{}`)
	f.Add(`{"type":"object","properties":{"a":{"$ref":"#"}},"default":{"a":{}}}`, `{"a":{"a":{}}}`)
	f.Add(`{"type":"object","Properties":{"a":{"$ref":"#"}}}`, `{"a":[]}`)
	f.Fuzz(func(t *testing.T, schema, config string) {
		d := on("v")
		d.ConfigSchema = jsonx.Value(schema)
		server, err := interceptor.New(nil, interceptor.Validator(d,
			func(context.Context, *call) (verdict, error) { return interceptor.Pass(), nil }))
		if err != nil {
			return
		}
		if _, err := jsonx.Verify([]byte(config), 0); err != nil || config == "" {
			return
		}
		_, err = server.Invoke(t.Context(), jsonx.Value(`{"name":"v","event":"tools/call","phase":"request","payload":{},"config":`+config+`}`))
		if rpc, ok := errors.AsType[*wire.RPCError](err); err != nil && (!ok || rpc.Code != wire.CodeInvalidParams) {
			t.Errorf("got %v", err)
		}
	})
}

// Any cursor is refused, or leads to a page of what is served.
func FuzzCursor(f *testing.F) {
	for _, cursor := range []string{"", "i1", "i2", "i0", "i-1", "i+1", "i99999999999999999999", "x", "i1 "} {
		f.Add(cursor)
	}
	list := make([]interceptor.Interceptor, 3)
	for i := range list {
		list[i] = interceptor.Validator(on(string(rune('a'+i))), func(context.Context, *call) (verdict, error) { return interceptor.Pass(), nil })
	}
	server, err := interceptor.New(&interceptor.Options{PageSize: 1}, list...)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, cursor string) {
		quoted, err := jsonx.AppendQuote(nil, cursor)
		if err != nil {
			return
		}
		page, err := server.List(t.Context(), jsonx.Value(`{"cursor":`+string(quoted)+`}`))
		if err != nil {
			if rpc, ok := errors.AsType[*wire.RPCError](err); !ok || rpc.Code != wire.CodeInvalidParams {
				t.Errorf("%q: got %v", cursor, err)
			}
			return
		}
		interceptors, _ := jsonx.Lookup(page, "interceptors")
		n := 0
		for range jsonx.Elements(interceptors) {
			n++
		}
		if n != 1 {
			t.Errorf("%q: a page of %d", cursor, n)
		}
	})
}
