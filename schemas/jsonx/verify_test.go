package jsonx_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

func TestVerify(t *testing.T) {
	t.Parallel()
	nested := func(n int) string { return strings.Repeat(`{"a":[`, n/2) + `1` + strings.Repeat(`]}`, n/2) }
	tests := []struct {
		name, text string
		depth      int
		want       jsonx.Traits
		offset     int64 // of the error, -1 for none
	}{
		{name: "plain", text: `{"a":[1,"\"\\"]}`, offset: -1},
		{name: "pair", text: `"\ud83d\ude00"`, offset: -1},
		{name: "high alone", text: `"\ud83d\u0041"`, want: jsonx.Traits{LoneSurrogates: true}, offset: -1},
		{name: "low alone", text: `["\\ud83d\\","\\\uDE00"]`, want: jsonx.Traits{LoneSurrogates: true}, offset: -1},
		{name: "escaped backslash is no escape", text: `"\\ud83d"`, offset: -1},
		{name: "invalid UTF-8", text: "\"\xc0\x80\"", want: jsonx.Traits{InvalidUTF8: true}, offset: -1},
		{name: "duplicates", text: `[{"a":1,"b":{"c":1,"\u0063":2}}]`, want: jsonx.Traits{Duplicates: true}, offset: -1},
		{name: "at the bound", text: nested(10), depth: 10, offset: -1},
		{name: "brackets side by side", text: `[[],[],{},["{{{["]]`, depth: 2, offset: -1},
		{name: "over the bound", text: nested(12), depth: 10, offset: 30},
		{name: "over jsontext's bound", text: nested(20_000), depth: 1 << 30, offset: 30_000},
		{name: "cut", text: `{"a":"\u12`, offset: 6},
		{name: "two values", text: `1 2`, offset: 1},
		{name: "none", text: ` `, offset: 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := jsonx.Verify([]byte(tt.text), tt.depth)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("traits differ (-want +got):\n%s", diff)
			}
			if (err != nil) != (tt.offset >= 0) {
				t.Fatalf("Verify: %v", err)
			}
			if pos, ok := jsonx.PositionOf(err); err != nil && (!ok || pos.Offset != tt.offset) {
				t.Errorf("the error is at %d, want %d (%v)", pos.Offset, tt.offset, err)
			}
			if strings.HasPrefix(tt.name, "over") && !errors.Is(err, jsonx.ErrTooDeep) {
				t.Errorf("Verify: %v, want ErrTooDeep", err)
			}
		})
	}
}

func TestMembers(t *testing.T) {
	t.Parallel()
	var got []string
	for m := range jsonx.Members(jsonx.Value(" {\"a\" : [1, {\"x\":\"]}\"}] ,\"\\u0062\":\"\\\"}\",\n\"c\":-1e5\t,\"d\":{},\"e\\\\\":\"\\\\\\\"\\\\\",\"f\":[]}")) {
		got = append(got, string(m.Name)+"="+string(m.Value))
	}
	if diff := cmp.Diff([]string{`a=[1, {"x":"]}"}]`, `b="\"}"`, `c=-1e5`, `d={}`, `e\="\\\"\\"`, `f=[]`}, got); diff != "" {
		t.Errorf("members differ (-want +got):\n%s", diff)
	}
	for _, text := range []string{"", "[1]", "{", `{"a`, `{"a"`, `{"a":`, `{"a":1`, `{"a":{"b":[`, `{"a":1,`, `{"a" "b"}`, `{:}`} {
		for range jsonx.Members(jsonx.Value(text)) {
		}
		for range jsonx.Elements(jsonx.Value(text)) {
		}
	}
	if v, ok := jsonx.Lookup(jsonx.Value(`{"A":1,"a":{"b":2}}`), "b"); ok {
		t.Errorf("a nested member was found: %s", v)
	}
}

func TestStringOf(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{`"a"`: "a", `"\u00e9\n"`: "é\n", `"\ud83d"`: "\uFFFD", `""`: ""} {
		if got, ok := jsonx.StringOf(jsonx.Value(text)); !ok || got != want {
			t.Errorf("StringOf(%s) is %q, %t; want %q", text, got, ok, want)
		}
	}
	for _, text := range []string{`1`, `null`, ``, `"`, `{"a":"b"}`} {
		if got, ok := jsonx.StringOf(jsonx.Value(text)); ok {
			t.Errorf("StringOf(%s) is %q", text, got)
		}
	}
}
