package wire_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/chaintrail/chaintrail/chain/wire"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

func TestParse(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, raw string
		kind      wire.Kind
		flags     wire.Flags
		id        string
		params    string
		result    string
		errObj    string
	}{
		{name: "request", raw: `{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":1}}`, kind: wire.KindRequest, id: `1`, params: `{"a":1}`},
		{name: "no params", raw: `{"jsonrpc":"2.0","id":1,"method":"m"}`, kind: wire.KindRequest, id: `1`},
		{name: "null params", raw: `{"jsonrpc":"2.0","id":1,"method":"m","params":null}`, kind: wire.KindRequest, flags: wire.FlagNull, id: `1`, params: `null`},
		{name: "array params", raw: `{"jsonrpc":"2.0","id":1,"method":"m","params":[1,[2]]}`, kind: wire.KindRequest, id: `1`, params: `[1,[2]]`},
		{name: "big id, odd order, white space", raw: " {\n\"params\" : {\"x\":[1, 2 ]} ,\t\"id\":12345678901234567890,\"x\":{\"id\":9},\"method\":\"m\",\"jsonrpc\":\"2.0\"}\r\n", kind: wire.KindRequest, id: `12345678901234567890`, params: `{"x":[1, 2 ]}`},
		{name: "fractional id", raw: `{"jsonrpc":"2.0","id":1.50e0,"method":"m"}`, kind: wire.KindRequest, id: `1.50e0`},
		{name: "escaped names", raw: `{"json\u0072pc":"2.0","\u0069d":"a\"}","meth\u006fd":"m\u006e"}`, kind: wire.KindRequest, id: `"a\"}"`},
		{name: "case differs", raw: `{"jsonrpc":"2.0","ID":1,"method":"m"}`, kind: wire.KindNotification},
		{name: "notification", raw: `{"jsonrpc":"2.0","method":"m"}`, kind: wire.KindNotification},
		{name: "response", raw: `{"jsonrpc":"2.0","id":"x","result":{"n":12345678901234567890}}`, kind: wire.KindResponse, id: `"x"`, result: `{"n":12345678901234567890}`},
		{name: "null result", raw: `{"jsonrpc":"2.0","id":"x","result":null}`, kind: wire.KindResponse, id: `"x"`, result: `null`},
		{name: "error", raw: `{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":"}"}}`, kind: wire.KindError, id: `1`, errObj: `{"code":-1,"message":"}"}`},
		{name: "error without id", raw: `{"jsonrpc":"2.0","id":null,"error":{"code":-1,"message":"m"}}`, kind: wire.KindError, id: `null`, errObj: `{"code":-1,"message":"m"}`},
		{name: "lone surrogate", raw: `{"jsonrpc":"2.0","id":1,"method":"m","params":{"s":"\ud83d"}}`, kind: wire.KindRequest, flags: wire.FlagLoneSurrogate, id: `1`, params: `{"s":"\ud83d"}`},
		{name: "low surrogate first", raw: `{"jsonrpc":"2.0","id":1,"method":"m","params":{"s":"a\\\udc00\ud83d"}}`, kind: wire.KindRequest, flags: wire.FlagLoneSurrogate, id: `1`, params: `{"s":"a\\\udc00\ud83d"}`},
		{name: "surrogate pair", raw: `{"jsonrpc":"2.0","id":1,"method":"m","params":{"s":"\uD83D\uDE00\\ud83d"}}`, kind: wire.KindRequest, id: `1`, params: `{"s":"\uD83D\uDE00\\ud83d"}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			msg, err := wire.Parse([]byte(tt.raw), wire.Limits{})
			if err != nil {
				t.Fatalf("Parse: %v", err)
			}
			got := []string{msg.Kind.String(), string(msg.ID), string(msg.Params), string(msg.Result), string(msg.Error)}
			want := []string{tt.kind.String(), tt.id, tt.params, tt.result, tt.errObj}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("parts differ (-want +got):\n%s", diff)
			}
			if msg.Flags != tt.flags {
				t.Errorf("flags are %b, want %b", msg.Flags, tt.flags)
			}
		})
	}
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat("[", 1001) + strings.Repeat("]", 1001)
	tests := []struct {
		name, raw string
		code      int
		id        string
		offset    int64
	}{
		{name: "empty", raw: ``, code: -32700, offset: 0},
		{name: "spaces", raw: "  \n", code: -32700, offset: 3},
		{name: "cut", raw: `{"jsonrpc":"2.0","id":7,"method":"m"`, code: -32700, id: `7`, offset: 36},
		{name: "two values", raw: `{"jsonrpc":"2.0","id":7,"method":"m"} {}`, code: -32700, id: `7`, offset: 37},
		{name: "bad literal", raw: `{"id":"s","jsonrpc":"2.0","method":nope}`, code: -32700, id: `"s"`, offset: 36},
		{name: "number", raw: `12`, code: -32600, offset: 0},
		{name: "string", raw: `"x"`, code: -32600, offset: 0},
		{name: "empty batch", raw: `[]`, code: -32600, offset: 0},
		{name: "no version", raw: `{"id":7,"method":"m"}`, code: -32600, id: `7`, offset: -1},
		{name: "version 1", raw: `{"jsonrpc":"1.0","id":7,"method":"m"}`, code: -32600, id: `7`, offset: -1},
		{name: "null id", raw: `{"jsonrpc":"2.0","id":null,"method":"m"}`, code: -32600, offset: -1},
		{name: "object id", raw: `{"jsonrpc":"2.0","id":{},"method":"m"}`, code: -32600, offset: -1},
		{name: "method number", raw: `{"jsonrpc":"2.0","id":7,"method":1}`, code: -32600, id: `7`, offset: -1},
		{name: "method empty", raw: `{"jsonrpc":"2.0","id":7,"method":""}`, code: -32600, id: `7`, offset: -1},
		{name: "params string", raw: `{"jsonrpc":"2.0","id":7,"method":"m","params":"p"}`, code: -32600, id: `7`, offset: -1},
		{name: "nothing", raw: `{"jsonrpc":"2.0","id":7}`, code: -32600, id: `7`, offset: -1},
		{name: "both", raw: `{"jsonrpc":"2.0","id":7,"result":1,"error":{}}`, code: -32600, id: `7`, offset: -1},
		{name: "call and answer", raw: `{"jsonrpc":"2.0","id":7,"method":"m","result":1}`, code: -32600, id: `7`, offset: -1},
		{name: "error string", raw: `{"jsonrpc":"2.0","id":7,"error":"e"}`, code: -32600, id: `7`, offset: -1},
		{name: "result without id", raw: `{"jsonrpc":"2.0","result":1}`, code: -32600, offset: -1},
		{name: "duplicate top", raw: `{"jsonrpc":"2.0","id":7,"method":"m","method":"n"}`, code: -32700, id: `7`, offset: 37},
		{name: "duplicate deep", raw: `{"jsonrpc":"2.0","id":7,"method":"m","params":{"a":{"b":1,"\u0062":2}}}`, code: -32700, id: `7`, offset: 58},
		{name: "invalid UTF-8", raw: "{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"m\",\"params\":{\"a\":\"\xff\"}}", code: -32700, id: `7`, offset: -1},
		{name: "UTF-8 surrogate", raw: "{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"m\",\"params\":{\"a\":\"\xed\xa0\x80\"}}", code: -32700, id: `7`, offset: -1},
		{name: "deep", raw: `{"jsonrpc":"2.0","id":7,"method":"m","params":` + deep + `}`, code: -32700, id: `7`, offset: 1045},
		{name: "very deep, never closed", raw: strings.Repeat("[", 1<<20), code: -32700, offset: 1000},
		{name: "raw line end in string", raw: "{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"m\n\"}", code: -32700, id: `7`, offset: 35},
		{name: "byte order mark", raw: "\xef\xbb\xbf{}", code: -32700, offset: 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := wire.Parse([]byte(tt.raw), wire.Limits{})
			bad, ok := errors.AsType[*wire.ParseError](err)
			if !ok {
				t.Fatalf("Parse: %v, want a ParseError", err)
			}
			if bad.Code != tt.code || string(bad.ID) != tt.id || bad.Offset != tt.offset {
				t.Errorf("code %d, id %s, offset %d; want %d, %s, %d (%v)", bad.Code, bad.ID, bad.Offset, tt.code, tt.id, tt.offset, err)
			}
			answer := wire.NewErrorAnswer(bad.ID, bad.RPC())
			if msg, err := wire.Parse(answer, wire.Limits{}); err != nil || msg.Kind != wire.KindError {
				t.Errorf("the answer %s does not parse: %v", answer, err)
			}
		})
	}
}

func TestParseLenient(t *testing.T) {
	t.Parallel()
	raw := []byte("{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{\"a\":1,\"a\":\"\xff\"}}")
	msg, err := wire.Parse(raw, wire.Limits{Lenient: true})
	if err != nil {
		t.Fatalf("Parse: %v", err)
	}
	if want := wire.FlagDuplicates | wire.FlagInvalidUTF8; msg.Flags != want || !bytes.Equal(msg.Raw, raw) {
		t.Errorf("flags are %b, want %b; raw is %q", msg.Flags, want, msg.Raw)
	}
	if _, err := wire.Parse([]byte(`{"jsonrpc":"2.0","id":7,"result":`), wire.Limits{Lenient: true}); err == nil {
		t.Error("a cut message passed")
	}
}

func TestParseBatch(t *testing.T) {
	t.Parallel()
	_, err := wire.Parse([]byte(` [ {"id":1} ,2,"a,]", [3] ]`), wire.Limits{})
	batch, ok := errors.AsType[*wire.BatchError](err)
	if !ok || !errors.Is(err, wire.ErrBatch) {
		t.Fatalf("Parse: %v, want a BatchError", err)
	}
	var got []string
	for _, e := range batch.Entries {
		got = append(got, string(e))
	}
	if diff := cmp.Diff([]string{`{"id":1}`, `2`, `"a,]"`, `[3]`}, got); diff != "" {
		t.Errorf("entries differ (-want +got):\n%s", diff)
	}
}

func TestSplice(t *testing.T) {
	t.Parallel()
	parse := func(raw string) wire.Message {
		msg, err := wire.Parse([]byte(raw), wire.Limits{})
		if err != nil {
			t.Fatalf("Parse: %v", err)
		}
		return msg
	}
	withParams := func(raw, v string) string { m := parse(raw); o := m.WithParams(jsonx.Value(v)); return string(o.Raw) }
	withResult := func(raw, v string) string { m := parse(raw); o := m.WithResult(jsonx.Value(v)); return string(o.Raw) }
	withID := func(raw, v string) string { m := parse(raw); return string(m.WithID(jsonx.Value(v))) }
	tests := []struct{ name, got, want string }{
		{
			"params", withParams(`{ "params" : {"a":1} , "x":1.0e3, "jsonrpc":"2.0","id":1,"method":"m"}`, `{"b":22}`),
			`{ "params" : {"b":22} , "x":1.0e3, "jsonrpc":"2.0","id":1,"method":"m"}`,
		},
		{
			"missing params", withParams(`{"jsonrpc":"2.0","method":"m" ,"id":1}`, `{}`),
			`{"jsonrpc":"2.0","method":"m","params":{} ,"id":1}`,
		},
		{
			"result", withResult(`{"jsonrpc":"2.0","id":1,"result":[1],"z":0}`, `{"b":2}`),
			`{"jsonrpc":"2.0","id":1,"result":{"b":2},"z":0}`,
		},
		{"result of a request", withResult(`{"jsonrpc":"2.0","id":1,"method":"m"}`, `{}`), `{"jsonrpc":"2.0","id":1,"method":"m"}`},
		{"id", withID(`{"jsonrpc":"2.0", "id": 1,"method":"m"}`, `"abc"`), `{"jsonrpc":"2.0", "id": "abc","method":"m"}`},
	}
	for _, tt := range tests {
		if tt.got != tt.want {
			t.Errorf("%s: got %s, want %s", tt.name, tt.got, tt.want)
		}
		parse(tt.got)
	}
	null := parse(`{"jsonrpc":"2.0","method":"m","id":1,"params":null}`)
	if filled := null.WithParams(jsonx.Value(`{}`)); null.Flags != wire.FlagNull || filled.Flags != 0 {
		t.Errorf("flags are %b, then %b", null.Flags, filled.Flags)
	}
	// The parts of a spliced message are those of its own bytes, and it can be spliced again.
	first := parse(`{"jsonrpc":"2.0","method":"m","id":1}`)
	second := first.WithParams(jsonx.Value(`{"a":1}`))
	third := second.WithParams(jsonx.Value(`{"long":"er"}`))
	if string(second.Params) != `{"a":1}` || string(third.Raw) != `{"jsonrpc":"2.0","method":"m","params":{"long":"er"},"id":1}` {
		t.Errorf("params %s, then %s", second.Params, third.Raw)
	}
}

func TestMeta(t *testing.T) {
	t.Parallel()
	got := wire.MetaOf(jsonx.Value(`{"name":"x","_meta":{"traceparent":"00-a","progressToken":12345678901234567890,
		"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"c"},"tracestate":3}}`))
	want := wire.Meta{
		Traceparent: "00-a", ProtocolVersion: "2026-07-28",
		ProgressToken: jsonx.Value("12345678901234567890"), ClientInfo: jsonx.Value(`{"name":"c"}`),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("meta differs (-want +got):\n%s", diff)
	}
	for _, tt := range []struct{ in, want string }{
		{`{}`, `{"m":1}`}, {``, `{"m":1}`}, {`{"a":2}`, `{"m":1,"a":2}`}, {` {"m":[3], "a":2}`, ` {"m":1, "a":2}`}, {`null`, `{"m":1}`},
	} {
		if got := wire.WithMember(jsonx.Value(tt.in), "m", jsonx.Value("1")); string(got) != tt.want {
			t.Errorf("WithMember(%s) is %s, want %s", tt.in, got, tt.want)
		}
	}
	if s, ok := wire.MemberString(jsonx.Value(`{"Name":"n","name":"a\u00e9"}`), "name"); s != "aé" || !ok {
		t.Errorf("MemberString is %q, %t", s, ok)
	}
}

func TestIDKey(t *testing.T) {
	t.Parallel()
	same := [][2]string{{`1`, `1.0`}, {`"ab"`, `"a\u0062"`}, {`100`, `1e2`}}
	for _, p := range same {
		if a, b := wire.IDKey(jsonx.Value(p[0])), wire.IDKey(jsonx.Value(p[1])); a != b {
			t.Errorf("%s and %s have the keys %q and %q", p[0], p[1], a, b)
		}
	}
	differ := [][2]string{{`1`, `"1"`}, {`9007199254740992`, `9007199254740993`}, {`1`, `1.5`}, {`9007199254740993`, `9007199254740993.0`}}
	for _, p := range differ {
		if a, b := wire.IDKey(jsonx.Value(p[0])), wire.IDKey(jsonx.Value(p[1])); a == b {
			t.Errorf("%s and %s have one key %q", p[0], p[1], a)
		}
	}
}
