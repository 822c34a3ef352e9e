package main

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/chaintrail/chaintrail/audit/verify"
	"github.com/chaintrail/chaintrail/sinks/clickhouse"
)

// tamper is one way to change a trail, and what must be found.
type tamper struct {
	name, where string
	want        verify.Check // "": nothing may be found
	column      string       // that the finding must name
	sql         []string     // in the copy of the tables
	files       func(dir string, t *trail) error
}

func (c *tamper) expected() string {
	if c.want == "" {
		return "nothing"
	}
	return strings.TrimSpace(string(c.want) + " " + c.column)
}

func (t *trail) caseDir(i int) string { return filepath.Join(t.dir, "case"+strconv.Itoa(i)) }

func tables() []string {
	return []string{"schema_migrations", "events", "interceptions", "invocations", "plans", "open_items", "bodies"}
}

// try makes a copy of the trail, tampers with it and lets the verifier judge. others are the checks that found it besides.
func (t *trail) try(ctx context.Context, c *tamper, i int, sabotage string) (result string, others []verify.Check, err error) {
	dir := t.caseDir(i)
	conn, err := t.copy(ctx, dir, "case"+strconv.Itoa(i))
	if err != nil {
		return "", nil, err
	}
	defer conn.Close() //nolint:errcheck // nothing is under way
	for _, statement := range c.sql {
		if err := conn.Exec(mutated(ctx), t.targets.fill(statement)); err != nil {
			return "", nil, fmt.Errorf("%s: %w", t.targets.fill(statement), err)
		}
	}
	if c.files != nil {
		if err := c.files(dir, t); err != nil {
			return "", nil, err
		}
	}
	report, err := t.verify(ctx, dir, sabotage)
	if err != nil {
		return "", nil, err
	}
	for _, check := range slices.Sorted(maps.Keys(report.Counts)) {
		if check != c.want {
			others = append(others, check)
		}
	}
	return c.judge(report), others, nil
}

func (c *tamper) judge(report *verify.Report) string {
	switch {
	case c.want == "" && report.Found() == 0 && report.Verdict == verify.VerdictProven:
		return "no alarm"
	case c.want == "" && report.Found() == 0:
		return "no alarm, but " + string(report.Verdict)
	case c.want == "":
		return fmt.Sprintf("FALSE ALARM: %+v", report.Findings[0])
	case slices.ContainsFunc(report.Findings, func(f verify.Finding) bool { return f.Check == c.want && (c.column == "" || f.Column == c.column) }):
		return "found"
	case report.Found() > 0:
		return fmt.Sprintf("NOT NAMED: %+v", report.Findings[0])
	}
	return "NOT FOUND"
}

// copy gives a case tables, ledger, keys and anchor of its own.
func (t *trail) copy(ctx context.Context, dir, database string) (driver.Conn, error) {
	if err := t.conn.Exec(ctx, "CREATE DATABASE "+database); err != nil {
		return nil, err
	}
	for _, table := range tables() {
		for _, statement := range []string{
			"CREATE TABLE " + database + "." + table + " AS default." + table,
			"INSERT INTO " + database + "." + table + " SELECT * FROM default." + table,
		} {
			if err := t.conn.Exec(ctx, statement); err != nil {
				return nil, fmt.Errorf("%s: %w", statement, err)
			}
		}
	}
	for _, name := range []string{"ledger", "keys"} {
		if err := copyDir(filepath.Join(dir, "data", name), filepath.Join(t.data(), name)); err != nil {
			return nil, err
		}
	}
	if err := copyFile(filepath.Join(dir, "heads.ndjson"), filepath.Join(t.dir, "heads.ndjson")); err != nil {
		return nil, err
	}
	dsn, err := url.Parse(t.dsn)
	if err != nil {
		return nil, err
	}
	dsn.Path = "/" + database
	config := fmt.Sprintf("clickhouse: {dsn: '%s'}\n", dsn)
	if err := os.WriteFile(filepath.Join(dir, "chaintrail.yaml"), []byte(config), 0o600); err != nil {
		return nil, err
	}
	return clickhouse.Open(dsn.String())
}

func copyFile(to, from string) error {
	text, err := os.ReadFile(from) //nolint:gosec // G304: our own temporary folder
	if err != nil {
		return err
	}
	return os.WriteFile(to, text, 0o600) //nolint:gosec // G703: our own temporary folder
}

func copyDir(to, from string) error {
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		if d.IsDir() {
			return os.MkdirAll(filepath.Join(to, rel), 0o700)
		}
		return copyFile(filepath.Join(to, rel), path)
	})
}
