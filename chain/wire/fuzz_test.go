package wire_test

import (
	"bytes"
	"encoding/json/jsontext"
	"errors"
	"slices"
	"testing"
	"unicode/utf8"

	"github.com/chaintrail/chaintrail/chain/wire"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

// FuzzParse compares the splitter with the standard decoder, and checks that splicing keeps the rest.
func FuzzParse(f *testing.F) {
	for _, s := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":[1,{"b":"\ud83d\\"}]}}`,
		" [ {\"a\":\"]\"} , 1e5,null]\n", `{"a":1,"\u0061":2}`, `{"jsonrpc":"2.0","id":"x","result":null}`,
		"{\"\xff\":1}", `{"jsonrpc":"2.0","error":{"code":1,"message":"","data":[]},"id":null}`, `{"id":}`, `{"a":"\`, `[1`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		kept := bytes.Clone(raw)
		msg, err := wire.Parse(raw, wire.Limits{MaxDepth: 100})
		lenient, lenientErr := wire.Parse(raw, wire.Limits{MaxDepth: 100, Lenient: true})
		if !bytes.Equal(raw, kept) {
			t.Fatal("Parse changed its input")
		}
		if err == nil && (lenientErr != nil || lenient.Kind != msg.Kind) {
			t.Fatalf("strict passed, lenient said %v", lenientErr)
		}
		if batch, ok := errors.AsType[*wire.BatchError](lenientErr); ok {
			compareBatch(t, raw, batch)
		}
		if lenientErr != nil {
			if bad, ok := errors.AsType[*wire.ParseError](lenientErr); ok && bad.ID != nil && !bad.ID.IsValid(jsontext.AllowInvalidUTF8(true)) {
				t.Fatalf("the id %q of the error is no JSON", bad.ID)
			}
			return
		}
		compareMembers(t, &lenient)
		if err == nil && !utf8.Valid(raw) {
			t.Fatal("invalid UTF-8 passed")
		}
		for _, spliced := range []wire.Message{lenient.WithParams(jsonx.Value(`{"new":1}`)), lenient.WithResult(jsonx.Value(`{"new":1}`))} {
			again, err := wire.Parse(spliced.Raw, wire.Limits{MaxDepth: 100, Lenient: true})
			if err != nil || again.Kind != lenient.Kind || !bytes.Equal(again.ID, lenient.ID) || again.Method != lenient.Method {
				t.Fatalf("spliced %q: %v", spliced.Raw, err)
			}
			if !bytes.Equal(again.Params, spliced.Params) || !bytes.Equal(again.Result, spliced.Result) {
				t.Fatalf("spliced %q has other parts than it says", spliced.Raw)
			}
		}
	})
}

func compareMembers(t *testing.T, msg *wire.Message) {
	t.Helper()
	dec := jsontext.NewDecoder(bytes.NewBuffer(msg.Raw), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	if tok, err := dec.ReadToken(); err != nil || tok.Kind() != '{' {
		t.Fatalf("a message that is no object passed: %v", err)
	}
	for m := range jsonx.Members(msg.Raw) {
		name, err := dec.ReadToken()
		if err != nil || name.Kind() != '"' || name.String() != string(bytes.ToValidUTF8(m.Name, []byte("\uFFFD"))) && utf8.Valid(m.Name) {
			t.Fatalf("member %q, decoder says %v, %v", m.Name, name, err)
		}
		value, err := dec.ReadValue()
		if err != nil || !bytes.Equal(value, m.Value) {
			t.Fatalf("value %q, decoder says %q, %v", m.Value, value, err)
		}
	}
	if tok, err := dec.ReadToken(); err != nil || tok.Kind() != '}' {
		t.Fatalf("members are missing: %v, %v", tok, err)
	}
}

func compareBatch(t *testing.T, raw []byte, batch *wire.BatchError) {
	t.Helper()
	dec := jsontext.NewDecoder(bytes.NewBuffer(raw), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	_, _ = dec.ReadToken()
	var want []jsonx.Value
	for dec.PeekKind() != ']' {
		v, err := dec.ReadValue()
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, bytes.Clone(v))
	}
	if !slices.EqualFunc(want, batch.Entries, func(a, b jsonx.Value) bool { return bytes.Equal(a, b) }) {
		t.Fatalf("entries %q, decoder says %q", batch.Entries, want)
	}
}
