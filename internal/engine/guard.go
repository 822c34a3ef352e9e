package engine

import (
	"net/http"
	"slices"
	"strings"

	"github.com/chaintrail/chaintrail/internal/engine/chdb"
)

// guard keeps statements of readonly requests away from files, the network and other programs. The engine's own
// readonly=1 is not enough: the function file() reads, DESCRIBE of a table function looks at files and addresses, and
// INTO OUTFILE writes (seen with 26.7).
//
// It asks the engine's own parser, so that no trick of spelling matters, and knows a list of what is harmless, not of
// what is dangerous, so that a later engine's new table functions are refused.
type guard struct{ tables map[string]bool }

// harmlessTables are the table functions that touch nothing but what a readonly session may read anyway.
var harmlessTables = []string{
	"dictionary", "format", "fuzzjson", "generaterandom", "generateseries", "generate_series", "merge", "mergetreeindex",
	"mergetreeprojection", "null", "numbers", "numbers_mt", "primes", "sqlstandardvalues", "values", "view", "viewifpermitted",
	"zeros", "zeros_mt",
}

// outsideFunctions are the ordinary functions that read files or use the network.
var outsideFunctions = []string{
	"file", "hascolumnintable", "aiclassify", "aiembed", "aiextract", "aigenerate", "aitranslate", "catboostevaluate",
	"getclienthttpheader",
}

func newGuard(tableFunctions []string) guard {
	g := guard{tables: map[string]bool{}}
	for _, name := range tableFunctions {
		name = strings.ToLower(name)
		g.tables[name] = !slices.Contains(harmlessTables, name)
	}
	return g
}

// check refuses a statement that a readonly request must not run.
func (g guard) check(conn *chdb.Conn, req *request) error {
	if req.kind == kindInsert {
		return refuseReadonly("changes data")
	}
	class, statements, err := conn.Classify(req.sql)
	if err != nil {
		return err
	}
	if class == chdb.ClassUnknown && statements == 0 {
		return nil // the engine does not understand it and will say why
	}
	if class != chdb.ClassReadOnly {
		return refuseReadonly("does more than read")
	}
	if statements != 1 {
		return refuseReadonly("is more than one statement")
	}
	tree, _, err := conn.Exec("EXPLAIN AST "+req.sql, "TSVRaw", req.params...)
	if err != nil {
		return err
	}
	if strings.HasPrefix(string(tree), "Show") && strings.Contains(req.sql, "(") {
		// The tree leaves out the WHERE of SHOW TABLES and its like.
		return refuseReadonly("is a SHOW with a bracket, whose functions cannot be checked")
	}
	return g.checkTree(string(tree))
}

// checkTree looks at the lines of EXPLAIN AST. A literal with line breaks may look like lines of its own: that can only
// refuse too much.
func (g guard) checkTree(tree string) error {
	for line := range strings.Lines(tree) {
		node, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		name, _, _ := strings.Cut(rest, " (")
		name = strings.ToLower(strings.Trim(name, "`\" "))
		switch {
		case node == "Function" && (g.tables[name] || outside(name)), node == "Identifier" && outside(name):
			return refuseReadonly("uses " + name + ", which reaches outside of the database")
		case node == "TableIdentifier" && strings.ContainsAny(name, "/\\"):
			return refuseReadonly("names a file as a table")
		case node == "ColumnsApplyTransformer":
			return refuseReadonly("uses APPLY, whose functions cannot be checked")
		}
	}
	return nil
}

func outside(function string) bool {
	return slices.Contains(outsideFunctions, function) || strings.HasPrefix(function, "ai")
}

func refuseReadonly(what string) error {
	return refuse(http.StatusForbidden, codeReadonly, "READONLY", "Cannot execute query in readonly mode: it %s", what)
}
