package redact

import (
	"bytes"
	"fmt"
	"strconv"
	"sync"
)

const (
	// maxPasses bounds how often a text is read again after something was taken out of it.
	maxPasses = 8
	// maxPooled is the largest scratch buffer that is kept for the next text.
	maxPooled = 64 << 10
)

// RedactorConfig adapts the detectors. The zero value has all of them, with the built-in names.
type RedactorConfig struct {
	// Names are further names under which every value is a secret. Case and punctuation do not matter.
	Names []string `yaml:"names"`
	// SafeNames are names that would be taken for one of a secret, and are not.
	SafeNames []string `yaml:"safe_names"`
	// Off lists kinds that are not looked for.
	Off []Kind `yaml:"off"`
}

// Validate names the entry that is wrong.
func (c RedactorConfig) Validate() error {
	for _, kind := range c.Off {
		if !knownKind([]byte(kind)) {
			return fmt.Errorf("off: unknown kind %q; known are %v", kind, Kinds())
		}
	}
	for key, names := range map[string][]string{"names": c.Names, "safe_names": c.SafeNames} {
		for _, name := range names {
			if plain, letters := normalize(nil, []byte(name)); len(plain) < 3 || letters == 0 {
				return fmt.Errorf("%s: %q needs at least three letters or digits, and one letter", key, name)
			}
		}
	}
	return nil
}

// Redactor takes secrets out of bytes. It may be used by several goroutines at once.
type Redactor struct {
	names   *nameRules
	off     map[Kind]bool
	scratch sync.Pool // of *walker
}

// NewRedactor returns a redactor; a wrong cfg is the error of its Validate.
func NewRedactor(cfg RedactorConfig) (*Redactor, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	return newRedactor(newNameRules(cfg.Names, cfg.SafeNames), cfg.Off), nil
}

func newRedactor(names *nameRules, off []Kind) *Redactor {
	r := &Redactor{names: names, off: map[Kind]bool{}}
	for _, kind := range off {
		r.off[kind] = true
	}
	r.scratch.New = func() any { return &walker{text: &textScan{names: r.names, off: r.off}} }
	return r
}

// without returns a redactor with the same names that does not look for some more kinds.
func (r *Redactor) without(kinds ...Kind) *Redactor {
	for kind := range r.off {
		kinds = append(kinds, kind)
	}
	return newRedactor(r.names, kinds)
}

// Redact returns b with every secret that it finds replaced by "[redacted:kind]". Valid JSON stays
// valid JSON; b need not be JSON, nor UTF-8. b is never changed; when there is nothing to replace it
// is returned itself. Redact(Redact(b)) equals Redact(b).
func (r *Redactor) Redact(b []byte) []byte {
	out, _ := r.Find(b)
	return out
}

// RedactString is Redact for a string.
func (r *Redactor) RedactString(s string) string {
	out, n := r.Find([]byte(s))
	if n == 0 {
		return s
	}
	return string(out)
}

// Find is [Redactor.Redact], and tells how many values were replaced.
func (r *Redactor) Find(b []byte) (out []byte, found int) {
	if len(b) < 5 {
		return b, 0
	}
	w, _ := r.scratch.Get().(*walker)
	out = b
	for range maxPasses {
		next, n := w.pass(out)
		if n == 0 {
			break
		}
		out, found = next, found+n
	}
	if cap(w.dec) <= maxPooled && cap(w.hits) <= maxPooled/64 {
		w.text.t, w.text.hits = nil, nil
		r.scratch.Put(w)
	}
	return out, found
}

// pass reads b once.
func (w *walker) pass(b []byte) (out []byte, found int) {
	w.hits, w.depth, w.schema, w.named, w.nextSchema = w.hits[:0], 0, 0, 0, false
	if !w.walk(b) {
		w.hits = w.text.scan(b, w.hits[:0])
		if len(w.hits) == 0 && bytes.IndexByte(b, '\\') >= 0 {
			w.dec = unescape(w.dec[:0], b)
			w.hits = w.text.scan(w.dec, w.hits)
			rawHits(w.hits, b, 0)
		}
	}
	if len(w.hits) == 0 {
		return b, 0
	}
	return splice(b, w.hits), len(w.hits)
}

// highestNumber returns the highest N of the markers "[redacted:kind:N]" in b. Markers in member
// names are numbered from there, because equal names in one object are no valid JSON.
func highestNumber(b []byte) int {
	highest := 0
	for {
		i := bytes.Index(b, []byte(markerPrefix))
		if i < 0 {
			return highest
		}
		n := markerAt(b[i:])
		if n == 0 {
			b = b[i+len(markerPrefix):]
			continue
		}
		marker := b[i : i+n-1]
		if v, err := strconv.Atoi(string(marker[bytes.LastIndexByte(marker, ':')+1:])); err == nil {
			highest = max(highest, v)
		}
		b = b[i+n:]
	}
}

// splice returns b with a marker in the place of every hit.
func splice(b []byte, hits []hit) []byte {
	out := make([]byte, 0, len(b)+16*len(hits))
	from, number := 0, -1
	for _, h := range hits {
		out = append(out, b[from:h.start]...)
		mark := h.mark()
		out = append(out, mark...)
		out = append(out, markerPrefix...)
		out = append(out, h.kind...)
		if h.key {
			if number < 0 {
				number = highestNumber(b)
			}
			number++
			out = append(out, ':')
			out = strconv.AppendInt(out, int64(number), 10)
		}
		out = append(out, ']')
		out = append(out, mark...)
		from = h.end
	}
	return append(out, b[from:]...)
}

// mark is the quotation mark that goes around the marker.
func (h hit) mark() string {
	switch {
	case !h.quoted:
		return ""
	case h.nested:
		return `\"`
	}
	return `"`
}
