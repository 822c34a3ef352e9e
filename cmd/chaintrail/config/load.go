package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"reflect"
	"sort"
	"strings"

	"go.yaml.in/yaml/v3"
)

// FileName is looked for in the working directory when no file is named.
const FileName = "chaintrail.yaml"

// Error is a fault in a configuration file, in the operator's terms.
type Error struct {
	File string
	Line int    // 0 when the fault has no single place
	Key  string // path, such as backends[0].url
	Text string // what is wrong and what would be right
}

func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.File)
	if e.Line > 0 {
		fmt.Fprintf(&b, ":%d", e.Line)
	}
	if e.Key != "" {
		b.WriteString(": " + e.Key)
	}
	return b.String() + ": " + e.Text
}

// Load reads a file over the defaults. An empty path means FileName if there is one, else the defaults.
func Load(path string) (Config, error) {
	explicit := path != ""
	if !explicit {
		path = FileName
	}
	data, err := os.ReadFile(path) //nolint:gosec // G304: the operator names the file
	switch {
	case errors.Is(err, fs.ErrNotExist) && !explicit:
		cfg := Default()
		return cfg, nil
	case err != nil:
		return Config{}, fmt.Errorf("read configuration: %w", err)
	}
	return Parse(path, data)
}

// Parse reads data, whose name in errors is file, over the defaults.
func Parse(file string, data []byte) (Config, error) {
	cfg := Default()
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var root yaml.Node
	switch err := dec.Decode(&root); {
	case errors.Is(err, io.EOF):
		return cfg, nil
	case err != nil:
		return Config{}, &Error{File: file, Text: "not YAML: " + strings.TrimPrefix(err.Error(), "yaml: ")}
	}
	var second yaml.Node
	if err := dec.Decode(&second); !errors.Is(err, io.EOF) {
		return Config{}, &Error{File: file, Text: "has more than one YAML document; keep one"}
	}
	doc := root.Content[0]
	if err := known(file, "", doc, reflect.TypeFor[Config]()); err != nil {
		return Config{}, err
	}
	if err := doc.Decode(&cfg); err != nil {
		return Config{}, typeError(file, doc, err)
	}
	if faults := cfg.validate(); len(faults) > 0 {
		errs := make([]error, len(faults))
		for i, f := range faults {
			errs[i] = &Error{File: file, Line: line(doc, f.key), Key: f.key, Text: f.text}
		}
		return Config{}, errors.Join(errs...)
	}
	return cfg, nil
}

// known refuses keys that no field has, and a key written twice.
func known(file, path string, n *yaml.Node, t reflect.Type) error {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case n.Kind == yaml.SequenceNode && t.Kind() == reflect.Slice:
		for i, item := range n.Content {
			if err := known(file, fmt.Sprintf("%s[%d]", path, i), item, t.Elem()); err != nil {
				return err
			}
		}
	case n.Kind == yaml.MappingNode && t.Kind() == reflect.Map && t.Elem().Kind() == reflect.Struct:
		for i := 0; i+1 < len(n.Content); i += 2 {
			if err := known(file, join(path, n.Content[i].Value), n.Content[i+1], t.Elem()); err != nil {
				return err
			}
		}
	case n.Kind == yaml.MappingNode && t.Kind() == reflect.Struct:
		fields := fieldsOf(t)
		for i := 0; i+1 < len(n.Content); i += 2 {
			key := n.Content[i]
			field, ok := fields[key.Value]
			if !ok {
				return &Error{
					File: file, Line: key.Line, Key: join(path, key.Value),
					Text: "is not a key here; there are: " + strings.Join(sortedKeys(fields), ", "),
				}
			}
			if err := known(file, join(path, key.Value), n.Content[i+1], field); err != nil {
				return err
			}
		}
	}
	return nil
}

func fieldsOf(t reflect.Type) map[string]reflect.Type {
	fields := make(map[string]reflect.Type, t.NumField())
	for f := range t.Fields() {
		fields[f.Tag.Get("yaml")] = f.Type
	}
	return fields
}

func sortedKeys(m map[string]reflect.Type) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	return keys
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

// typeError turns the library's text, which names Go types, into one that names the value.
func typeError(file string, doc *yaml.Node, err error) error {
	te, ok := errors.AsType[*yaml.TypeError](err)
	if !ok || len(te.Errors) == 0 {
		return &Error{File: file, Line: doc.Line, Text: err.Error()}
	}
	errs := make([]error, 0, len(te.Errors))
	for _, text := range te.Errors {
		e := &Error{File: file, Text: text}
		if _, scanErr := fmt.Sscanf(text, "line %d:", &e.Line); scanErr == nil {
			_, e.Text, _ = strings.Cut(text, ": ")
		}
		e.Key = keyAt(doc, e.Line)
		e.Text = strings.NewReplacer(
			"cannot unmarshal !!", "expected another type than ", "into time.Duration", "(a duration such as 30s)",
			"into bool", "(true or false)", "into []string", "(a list of texts)", "into string", "(a text)", "into int", "(a whole number)",
			"into float64", "(a number)",
		).Replace(e.Text)
		errs = append(errs, e)
	}
	return errors.Join(errs...)
}

// keyAt finds the innermost key written on a line.
func keyAt(n *yaml.Node, at int) string {
	found := ""
	var walk func(path string, n *yaml.Node)
	walk = func(path string, n *yaml.Node) {
		switch n.Kind {
		case yaml.MappingNode:
			for i := 0; i+1 < len(n.Content); i += 2 {
				p := join(path, n.Content[i].Value)
				if n.Content[i].Line == at {
					found = p
				}
				walk(p, n.Content[i+1])
			}
		case yaml.SequenceNode:
			for i, item := range n.Content {
				walk(fmt.Sprintf("%s[%d]", path, i), item)
			}
		case yaml.DocumentNode, yaml.ScalarNode, yaml.AliasNode:
		}
	}
	walk("", n)
	return found
}

// line finds where a key path stands, or its nearest parent.
func line(n *yaml.Node, key string) int {
	best := 0
	var walk func(path string, n *yaml.Node)
	walk = func(path string, n *yaml.Node) {
		if path != "" && (key == path || strings.HasPrefix(key, path+".") || strings.HasPrefix(key, path+"[")) {
			best = n.Line
		}
		switch n.Kind {
		case yaml.MappingNode:
			for i := 0; i+1 < len(n.Content); i += 2 {
				walk(join(path, n.Content[i].Value), n.Content[i+1])
			}
		case yaml.SequenceNode:
			for i, item := range n.Content {
				walk(fmt.Sprintf("%s[%d]", path, i), item)
			}
		case yaml.DocumentNode, yaml.ScalarNode, yaml.AliasNode:
		}
	}
	walk("", n)
	return best
}
