package verify

import (
	"reflect"
	"regexp"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	tables "github.com/chaintrail/chaintrail/schemas/clickhouse"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func tags(t reflect.Type) (names []string) {
	for f := range t.Fields() {
		if f.Anonymous {
			names = append(names, tags(f.Type)...)
		} else {
			names = append(names, f.Tag.Get("ch"))
		}
	}
	return names
}

// Every column of every table is compared: one that a migration adds makes this red until the verifier knows it.
func TestEveryColumnIsKnown(t *testing.T) {
	t.Parallel()
	known := map[string]reflect.Type{
		"events": reflect.TypeFor[EventRow](), "interceptions": reflect.TypeFor[InterceptionRow](), "invocations": reflect.TypeFor[InvocationRow](),
		"plans": reflect.TypeFor[PlanRow](), "open_items": reflect.TypeFor[ContextRow](), "bodies": reflect.TypeFor[ItemColumns](),
	}
	list, err := tables.Migrations()
	if err != nil {
		t.Fatal(err)
	}
	create := regexp.MustCompile(`CREATE TABLE IF NOT EXISTS (\w+)`)
	column := regexp.MustCompile(`(?m)^    (\w+) +[A-Z]\w+[\(, \n]`)
	for _, m := range list {
		found := create.FindStringSubmatch(m.Statement("MergeTree"))
		if found == nil || known[found[1]] == nil {
			continue
		}
		var want []string
		for _, c := range column.FindAllStringSubmatch(m.Statement("MergeTree"), -1) {
			if c[1] != "INDEX" {
				want = append(want, c[1])
			}
		}
		got := tags(known[found[1]])
		slices.Sort(got)
		slices.Sort(want)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("columns of %s that the verifier compares (-there +compared):\n%s", found[1], diff)
		}
		delete(known, found[1])
	}
	if len(known) > 0 {
		t.Errorf("tables that no migration makes: %v", known)
	}
}
