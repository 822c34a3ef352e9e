package schemas

import (
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"uuid"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

// fill sets every field of v that is reached by reflection, each left zero with probability 1/3, so
// that a field added to Event is covered the day it is added.
func fill(r *rand.Rand, v reflect.Value, str func() string) {
	if r.IntN(3) == 0 {
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(str())
	case reflect.Int, reflect.Int32, reflect.Int64:
		if v.Type() == reflect.TypeFor[Time]() {
			v.SetInt(r.Int64N(4e15))
			return
		}
		v.SetInt(int64(int32(r.Uint32())))
	case reflect.Uint8, reflect.Uint64:
		v.SetUint(r.Uint64() >> (64 - v.Type().Bits()))
	case reflect.Bool:
		v.SetBool(r.IntN(2) == 0)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(r, v.Elem(), str)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), r.IntN(4), 4))
		for i := range v.Len() {
			fill(r, v.Index(i), str)
		}
	case reflect.Array:
		for i := range v.Len() {
			fill(r, v.Index(i), str)
		}
	case reflect.Struct:
		for _, f := range v.Fields() {
			fill(r, f, str)
		}
	default:
		panic("fill does not know " + v.Type().String())
	}
}

func TestAppendJSONEqualsReflection(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		strs := rapid.SliceOfN(rapid.String(), 1, 8).Draw(t, "strings")
		var e Event
		for e.Seq == 0 {
			fill(r, reflect.ValueOf(&e).Elem(), func() string { return strs[r.IntN(len(strs))] })
		}
		got, err := e.AppendJSON([]byte("before"))
		if err != nil {
			t.Fatalf("AppendJSON of a legal event failed: %v", err)
		}
		head, _ := e.AppendJSONHead([]byte("before"))
		body, _ := e.AppendJSONBody(nil)
		if apart := string(head) + string(body); apart != string(got) {
			t.Fatalf("head and body made apart are %q, together %q", apart, got)
		}
		want, err := jsonx.Marshal(&e)
		if err != nil {
			t.Fatalf("Marshal of a legal event failed: %v", err)
		}
		if diff := cmp.Diff("before"+string(want), string(got)); diff != "" {
			t.Fatalf("AppendJSON differs from Marshal (-want +got):\n%s", diff)
		}
	})
}

func TestAppendJSONRefusesInvalidUTF8(t *testing.T) {
	t.Parallel()
	e := Event{Operation: &Operation{Target: "a\xffb"}}
	if _, err := e.AppendJSON(nil); err == nil || !strings.Contains(err.Error(), `"target"`) {
		t.Fatalf("AppendJSON of invalid UTF-8 gave %v, want an error that names the member", err)
	}
}

func BenchmarkAppendJSON(b *testing.B) {
	valid := true
	e := Event{
		Schema: Version, ID: uuid.NewV7(), Kind: KindRequest, Tenant: "default", Gateway: "gw",
		Correlation: &Correlation{Exchange: uuid.NewV7(), Session: "0123456789abcdef0123456789abcdef", Transport: "http"},
		Operation:   &Operation{Event: "tools/call", Phase: PhaseRequest, Direction: Sending, Server: "files", Target: "read"},
		Decision:    &Decision{Status: StatusSuccess, ChainUS: 120},
		Invocations: []Invocation{{ID: "0123456789abcdef0123456789abcdef", Interceptor: "secrets", Host: "inprocess", Valid: &valid}},
	}
	var buf []byte
	b.ReportAllocs()
	for b.Loop() {
		buf, _ = e.AppendJSON(buf[:0])
	}
}
