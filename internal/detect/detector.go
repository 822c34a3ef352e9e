package detect

import (
	"fmt"
	"sync"
)

const (
	// maxPasses bounds how often a text is read again after something was taken out of it.
	maxPasses = 8
	// maxPooled is the largest scratch buffer that is kept for the next text.
	maxPooled = 64 << 10
)

// Config adapts the detectors. The zero value has all of them, with the built-in names.
type Config struct {
	// Names are further names under which every value is a secret. Case and punctuation do not matter.
	Names []string `yaml:"names"`
	// SafeNames are names that would be taken for one of a secret, and are not.
	SafeNames []string `yaml:"safe_names"`
	// Off lists kinds that are not looked for.
	Off []Kind `yaml:"off"`
}

// Validate names the entry that is wrong.
func (c Config) Validate() error {
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

// Detector takes secrets out of bytes. It may be used by several goroutines at once.
type Detector struct {
	names   *nameRules
	off     map[Kind]bool
	scratch sync.Pool // of *walker
}

// New returns a detector; a wrong cfg is the error of its Validate.
func New(cfg Config) (*Detector, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	return newDetector(newNameRules(cfg.Names, cfg.SafeNames), cfg.Off), nil
}

func newDetector(names *nameRules, off []Kind) *Detector {
	d := &Detector{names: names, off: map[Kind]bool{}}
	for _, kind := range off {
		d.off[kind] = true
	}
	d.scratch.New = func() any { return &walker{text: &textScan{names: d.names, off: d.off}} }
	return d
}

// Without returns a detector with the same names that does not look for some more kinds.
func (d *Detector) Without(kinds ...Kind) *Detector {
	for kind := range d.off {
		kinds = append(kinds, kind)
	}
	return newDetector(d.names, kinds)
}

// Redact returns b with every secret that it finds replaced by "[redacted:kind]". Valid JSON stays
// valid JSON; b need not be JSON, nor UTF-8. b is never changed; when there is nothing to replace it
// is returned itself. Redact(Redact(b)) equals Redact(b).
func (d *Detector) Redact(b []byte) []byte {
	out, _ := d.Find(b)
	return out
}

// RedactString is Redact for a string.
func (d *Detector) RedactString(s string) string {
	out, n := d.Find([]byte(s))
	if n == 0 {
		return s
	}
	return string(out)
}

// Find is [Detector.Redact], and tells how many values were replaced.
func (d *Detector) Find(b []byte) (out []byte, found int) {
	if len(b) < 5 {
		return b, 0
	}
	w, _ := d.scratch.Get().(*walker)
	out = b
	for range maxPasses {
		next, n := w.pass(out)
		if n == 0 {
			break
		}
		out, found = next, found+n
	}
	d.release(w)
	return out, found
}

func (d *Detector) release(w *walker) {
	if cap(w.dec) <= maxPooled && cap(w.hits) <= maxPooled/64 {
		w.text.t, w.text.hits = nil, nil
		d.scratch.Put(w)
	}
}

// Finding is where something was found: b[Start:End] of the bytes that were read. What stands in a
// JSON string is found in its escaped form.
type Finding struct {
	Kind       Kind
	Start, End int
}

// Findings returns what [Detector.Find] would replace first, in order and without overlap. What becomes
// visible only when that is taken out is not among it.
func (d *Detector) Findings(b []byte) []Finding {
	if len(b) < 5 {
		return nil
	}
	w, _ := d.scratch.Get().(*walker)
	defer d.release(w)
	w.read(b)
	if len(w.hits) == 0 {
		return nil
	}
	found := make([]Finding, len(w.hits))
	for i, h := range w.hits {
		found[i] = Finding{h.kind, h.start, h.end}
	}
	return found
}

// SecretName reports whether a value under this name is a secret, whatever it looks like.
func (d *Detector) SecretName(name string) bool {
	return !d.off[KindByName] && d.names.secret([]byte(name))
}
