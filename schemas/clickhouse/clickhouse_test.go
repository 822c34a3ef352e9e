package clickhouse_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/chaintrail/chaintrail/schemas/clickhouse"
)

var update = flag.Bool("update", false, "pin the checksums of migrations that were not shipped yet")

const pins = "checksums.txt"

func TestShippedMigrationsDoNotChange(t *testing.T) {
	t.Parallel()
	all, err := clickhouse.Migrations()
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	for _, m := range all {
		fmt.Fprintf(&got, "%s  %s\n", m.Checksum, m.Name)
	}
	if *update {
		if err := os.WriteFile(pins, []byte(got.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(pins)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got.String()); diff != "" {
		t.Errorf("migrations differ from their pins (a shipped one never changes; pin a new one with -update):\n%s", diff)
	}
}

func TestStatements(t *testing.T) {
	t.Parallel()
	all, err := clickhouse.Migrations()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range all {
		for _, engine := range []string{"", clickhouse.ReplicatedEngine} {
			text := m.Statement(engine)
			if strings.Contains(text, "$") || strings.Contains(text, ";") || strings.Contains(text, "now(") {
				t.Errorf("%s holds a placeholder, a second statement or now()", m.Name)
			}
			if strings.HasPrefix(text, "CREATE VIEW IF NOT EXISTS ") {
				continue
			}
			want := engine
			if want == "" {
				want = clickhouse.DefaultEngine
			}
			if !strings.Contains(text, "ENGINE = "+want+"\n") {
				t.Errorf("%s does not use the engine %s", m.Name, want)
			}
			if m.Version > 1 && !strings.Contains(text, "non_replicated_deduplication_window") {
				t.Errorf("%s has no deduplication window", m.Name)
			}
		}
	}
}
