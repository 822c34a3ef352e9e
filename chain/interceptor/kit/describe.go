package kit

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/chaintrail/chaintrail/schemas"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

// answer is a result in the flat form of SEP-2624.
type answer struct {
	Type     schemas.InterceptorType `json:"type"`
	Valid    bool                    `json:"valid"`
	Severity schemas.Severity        `json:"severity"`
	Messages []struct {
		Path     string           `json:"path"`
		Message  string           `json:"message"`
		Severity schemas.Severity `json:"severity"`
	} `json:"messages"`
	Suggestions []struct {
		Path  string      `json:"path"`
		Value jsonx.Value `json:"value"`
	} `json:"suggestions"`
	Modified bool                   `json:"modified"`
	Payload  jsonx.Value            `json:"payload"`
	Recorded bool                   `json:"recorded"`
	Metrics  map[string]jsonx.Value `json:"metrics"`
	Info     jsonx.Value            `json:"info"`
}

// describe writes an answer down so that it can be compared: without the time it took.
func describe(params, result jsonx.Value, refused *refusal) (string, error) {
	var out bytes.Buffer
	if refused != nil {
		fmt.Fprintf(&out, "error %d %s\n", refused.Code, quote(refused.Message))
		// The JSON library words its errors at random, anew in each process.
		line(&out, "data", "", bytes.ReplaceAll(refused.Data, []byte("json: unable to "), []byte("json: cannot ")))
		return out.String(), nil
	}
	var a answer
	if err := jsonx.Unmarshal(result, &a); err != nil {
		return "", fmt.Errorf("read result: %w", err)
	}
	switch a.Type {
	case schemas.TypeValidation:
		a.describeVerdict(&out)
	case schemas.TypeMutation:
		before, _ := jsonx.Lookup(params, "payload")
		fmt.Fprintf(&out, "modified %t\n", a.Modified)
		diff(&out, "payload", before, a.Payload)
	case schemas.TypeSink:
		fmt.Fprintf(&out, "recorded %t\n", a.Recorded)
		for _, name := range slices.Sorted(maps.Keys(a.Metrics)) {
			line(&out, "metric", quote(name), a.Metrics[name])
		}
	default:
		return "", fmt.Errorf("result has the type %q, which is none", a.Type)
	}
	line(&out, "info", "", a.Info)
	return out.String(), nil
}

func (a *answer) describeVerdict(out *bytes.Buffer) {
	fmt.Fprintf(out, "valid %t", a.Valid)
	if a.Severity != "" {
		fmt.Fprintf(out, " %s", a.Severity)
	}
	out.WriteByte('\n')
	for _, m := range a.Messages {
		line(out, string(m.Severity), m.Path, jsonx.Value(quote(m.Message)))
	}
	for _, s := range a.Suggestions {
		line(out, "suggestion", s.Path, s.Value)
	}
}

// line writes what there is of a value at a place.
func line(out *bytes.Buffer, what, place string, v jsonx.Value) {
	if v == nil {
		return
	}
	out.WriteString(what)
	if place != "" {
		out.WriteString(" " + place)
	}
	out.WriteString(" " + compact(v) + "\n")
}

// diff writes what is new (+), gone (-) or other (~), in the order of the old payload.
func diff(out *bytes.Buffer, at string, before, after jsonx.Value) {
	switch {
	case bytes.Equal(before, after):
	case before.Kind() == '{' && after.Kind() == '{':
		for m := range jsonx.Members(before) {
			place := at + member(string(m.Name))
			if now, ok := jsonx.Lookup(after, string(m.Name)); ok {
				diff(out, place, m.Value, now)
			} else {
				line(out, "-", place, m.Value)
			}
		}
		for m := range jsonx.Members(after) {
			if _, ok := jsonx.Lookup(before, string(m.Name)); !ok {
				line(out, "+", at+member(string(m.Name)), m.Value)
			}
		}
	case before.Kind() == '[' && after.Kind() == '[':
		old, now := slices.Collect(jsonx.Elements(before)), slices.Collect(jsonx.Elements(after))
		for i := range max(len(old), len(now)) {
			place := at + "[" + strconv.Itoa(i) + "]"
			switch {
			case i >= len(now):
				line(out, "-", place, old[i])
			case i >= len(old):
				line(out, "+", place, now[i])
			default:
				diff(out, place, old[i], now[i])
			}
		}
	default:
		if b, a := compact(before), compact(after); a != b {
			fmt.Fprintf(out, "~ %s %s -> %s\n", at, b, a)
		}
	}
}

// member is the step of a path to a member.
func member(name string) string {
	for _, r := range name {
		if (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '_' && r != '$' && r != '-' {
			return "[" + quote(name) + "]"
		}
	}
	return "." + name
}

func quote(s string) string {
	out, _ := jsonx.AppendQuote(nil, s) // invalid UTF-8 is written as replacement characters
	return string(out)
}

// compact writes a value on one line, and each string in one way; numbers stay as they are.
func compact(v jsonx.Value) string {
	switch v.Kind() {
	case '"':
		if s, ok := jsonx.StringOf(v); ok {
			return quote(s)
		}
	case '{':
		out := []byte{'{'}
		for m := range jsonx.Members(v) {
			out = append(append(append(separate(out), quote(string(m.Name))...), ':'), compact(m.Value)...)
		}
		return string(append(out, '}'))
	case '[':
		out := []byte{'['}
		for e := range jsonx.Elements(v) {
			out = append(separate(out), compact(e)...)
		}
		return string(append(out, ']'))
	default:
	}
	return string(bytes.TrimSpace(v))
}

func separate(list []byte) []byte {
	if len(list) > 1 {
		return append(list, ',')
	}
	return list
}
