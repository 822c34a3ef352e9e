package query

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"uuid"

	"github.com/chaintrail/chaintrail/schemas"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

// Filter says which exchanges are meant; an empty field means any.
type Filter struct {
	Tenant      string
	Since       time.Time // of the outcome, inclusive
	Until       time.Time // exclusive
	Server      string
	Tool        string          // tool or prompt name, or resource URI as it was asked for
	Principal   string          // clear or pseudonym
	Outcome     schemas.Outcome //
	Interceptor string          // that was in the plan and has a result
	Session     string          // MCP session id, or its pseudonym
	Exchange    string          // id, or its beginning
	// Text occurs in a body, a context or a detail, without regard to case. Its words must be whole words there.
	Text  string
	Limit int // 0 means DefaultLimit
}

func (f *Filter) limit() (int, error) {
	switch {
	case f.Limit == 0:
		return DefaultLimit, nil
	case f.Limit < 0 || f.Limit > MaxLimit:
		return 0, fmt.Errorf("%w: limit must be from 1 to %d", ErrFilter, MaxLimit)
	default:
		return f.Limit, nil
	}
}

// where returns the conditions on table exchanges.
func (f *Filter) where() (*where, error) {
	w := &where{}
	for _, simple := range []struct{ condition, value string }{
		{"tenant = ?", f.Tenant}, {"server = ?", f.Server}, {"outcome = ?", string(f.Outcome)},
	} {
		if simple.value != "" {
			w.add(simple.condition, simple.value)
		}
	}
	if !f.Since.IsZero() {
		w.add("time >= fromUnixTimestamp64Micro(?, 'UTC')", f.Since.UnixMicro())
	}
	if !f.Until.IsZero() {
		w.add("time < fromUnixTimestamp64Micro(?, 'UTC')", f.Until.UnixMicro())
	}
	if err := f.identity(w); err != nil {
		return nil, err
	}
	inside, insideArgs := f.inside()
	for _, open := range []struct{ column, item, value string }{
		{"target", "target", f.Tool}, {"principal_ref", "principal", f.Principal}, {"session", "session_id", f.Session},
	} {
		if open.value != "" {
			w.add("("+open.column+" = ? OR exchange_id IN (SELECT exchange_id FROM open_items WHERE "+open.item+" = ?"+inside+"))",
				append([]any{open.value, open.value}, insideArgs...)...)
		}
	}
	if f.Interceptor != "" {
		w.add("exchange_id IN (SELECT exchange_id FROM invocations WHERE interceptor = ?"+inside+")",
			append([]any{f.Interceptor}, insideArgs...)...)
	}
	return w, f.text(w, inside, insideArgs)
}

// identity adds the condition on the exchange's id.
func (f *Filter) identity(w *where) error {
	if f.Exchange == "" {
		return nil
	}
	if id, err := uuid.Parse(f.Exchange); err == nil {
		w.add("exchange_id = toUUID(?)", id.String())
		return nil
	}
	if !idPrefix(f.Exchange) {
		return fmt.Errorf("%w: an exchange id has 36 characters of 0-9, a-f and -, or fewer for its beginning", ErrFilter)
	}
	w.add("startsWith(toString(exchange_id), ?)", strings.ToLower(f.Exchange))
	return nil
}

func idPrefix(s string) bool {
	return len(s) > 0 && len(s) <= 36 && strings.Trim(strings.ToLower(s), "0123456789abcdef-") == ""
}

// inside bounds sub-selects on other tables.
func (f *Filter) inside() (condition string, args []any) {
	if f.Tenant != "" {
		condition, args = condition+" AND tenant = ?", append(args, f.Tenant)
	}
	if !f.Since.IsZero() {
		condition, args = condition+" AND time >= fromUnixTimestamp64Micro(?, 'UTC')", append(args, f.Since.Add(-longest).UnixMicro())
	}
	return condition, args
}

// text adds the condition on bodies and open items. The words go through the token index; the text as a whole is then
// compared in what remains.
func (f *Filter) text(w *where, inside string, insideArgs []any) error {
	if f.Text == "" {
		return nil
	}
	if len(f.Text) > MaxText {
		return fmt.Errorf("%w: a text to search for has at most %d bytes", ErrFilter, MaxText)
	}
	part := &where{}
	for _, word := range words(f.Text) {
		part.add("hasToken(lower(data), ?)", word)
	}
	escaped, err := jsonx.Marshal(strings.ToValidUTF8(f.Text, "\uFFFD"))
	if err != nil {
		return fmt.Errorf("%w: text: %w", ErrFilter, err)
	}
	part.add("(positionCaseInsensitiveUTF8(data, ?) > 0 OR positionCaseInsensitiveUTF8(data, ?) > 0)",
		f.Text, string(escaped[1:len(escaped)-1])) // as it is, and as it stands inside a JSON string
	args := slices.Concat(part.args, insideArgs)
	one := func(table string) string {
		return "SELECT exchange_id FROM " + table + " WHERE " + part.String() + inside
	}
	w.add("exchange_id IN ("+one("bodies")+" UNION ALL "+one("open_items")+")", slices.Concat(args, args)...)
	return nil
}

// words returns the ASCII words of a text in lower case, as the token index cuts them. A word with other letters is
// left out: the index holds it with the case it was written in.
func words(text string) []string {
	var out []string
	for _, word := range strings.FieldsFunc(text, func(r rune) bool {
		return r < 0x80 && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
	}) {
		if strings.IndexFunc(word, func(r rune) bool { return r >= 0x80 }) < 0 {
			out = append(out, strings.ToLower(word))
		}
	}
	return out
}
