package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

// print writes v as --output asks; table draws it for people.
func (a *app) print(v any, table func() error) error {
	switch a.output {
	case "json":
		return a.printJSON(v)
	case "yaml":
		text, err := jsonx.MarshalIndent(v)
		if err != nil {
			return err
		}
		// YAML is a superset of JSON: going through the JSON form gives both outputs the same names.
		var node yaml.Node
		if err := yaml.Unmarshal(text, &node); err != nil {
			return err
		}
		blockStyle(&node)
		enc := yaml.NewEncoder(a.out)
		enc.SetIndent(2)
		if err := enc.Encode(&node); err != nil {
			return err
		}
		return enc.Close()
	default:
		return table()
	}
}

func (a *app) printJSON(v any) error {
	text, err := jsonx.MarshalIndent(v)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(a.out, "%s\n", text)
	return err
}

func blockStyle(n *yaml.Node) {
	n.Style &^= yaml.FlowStyle | yaml.DoubleQuotedStyle
	for _, c := range n.Content {
		blockStyle(c)
	}
}

// table writes aligned columns.
type table struct{ w *tabwriter.Writer }

func newTable(w io.Writer, header ...string) *table {
	t := &table{tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)}
	t.row(header...)
	return t
}

func (t *table) row(cells ...string) {
	for i, c := range cells {
		cells[i] = printable(c, 120)
	}
	fmt.Fprintln(t.w, strings.Join(cells, "\t"))
}

func (t *table) flush() error { return t.w.Flush() }

// printable makes text from strangers safe for a terminal: no control characters, bounded length.
func printable(s string, limit int) string {
	var b strings.Builder
	n := 0
	for _, r := range s {
		if n == limit {
			b.WriteRune('…')
			break
		}
		if r == utf8.RuneError || !unicode.IsPrint(r) && r != ' ' {
			r = '·'
		}
		b.WriteRune(r)
		n++
	}
	return b.String()
}
