package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
)

// suiteTest is a test that reports how many cases of a suite passed, by mode (chaintest.Report).
type suiteTest struct {
	pkg, run string
	suite    string
	modes    []string // all of them: one that is not reported is a miss
}

func suiteTests() []suiteTest {
	return []suiteTest{
		{"./chain", "^TestFixtures", "interceptor fixtures", []string{"in process", "stdio", "http"}},
		{"./chain/interop", "^TestFixtures", "interceptor fixtures", []string{"gateway, http to http", "gateway, http to stdio"}},
		{"./chain/middleware", "^TestFixtures", "interceptor fixtures", []string{
			"middleware, receiving order, 2025-11-25", "middleware, receiving order, 2026-07-28",
		}},
		{"./chain/chaintest", "^TestGolden", "golden cases", []string{"in process", "stdio"}},
		{"./chain/interop", "^(TestBadInput|TestReusedID)", "bad input", []string{"http to http", "http to stdio", "stdio to http", "stdio to stdio"}},
		{"./chain/interop", "^TestExampleMessages", "example messages", []string{
			"http to http", "http to stdio", "stdio to http", "stdio to stdio", "http to http, with interceptors",
			"http to stdio, with interceptors", "stdio to http, with interceptors", "stdio to stdio, with interceptors",
		}},
		{"./chain/interop", "^TestResultsValidate", "results against the schema", []string{
			"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28",
		}},
		{"./chain/interop", "^(TestJavaScript|TestNested|TestOlder)", "foreign peers", []string{
			"JavaScript server, stdio", "JavaScript server, http",
			"JavaScript client, lean server, stdio", "JavaScript client, lean server, http",
			"JavaScript client, go-sdk server, stdio", "JavaScript client, go-sdk server, http",
			"Go server, nested dialect, stdio", "Go server, nested dialect, http", "older descriptors",
		}},
	}
}

var reportRE = regexp.MustCompile(`conformance: ([^|]+) \| ([^|]+) \| (\d+) of (\d+)`)

// runTest runs a test and makes rows of what it reports.
func (s *suite) runTest(ctx context.Context, t suiteTest) []row {
	cmd := exec.CommandContext(ctx, "go", "test", "-count=1", "-run", t.run, "-v", t.pkg) //nolint:gosec // G204: fixed words
	text, err := cmd.CombinedOutput()
	rows := reported(t, string(text))
	if err != nil {
		if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != 1 {
			err = fmt.Errorf("go test %s: %w", t.pkg, err)
		}
		rows = append(rows, row{suite: t.suite, mode: "go test " + t.pkg, count: "failed", want: "passes", note: err.Error(), missed: true})
		fmt.Fprintf(s.errs, "%s\n", text)
	}
	return rows
}

// reported makes a row of each mode, in the order of the suite; one that did not report is a miss.
func reported(t suiteTest, text string) []row {
	byMode := map[string]row{}
	for _, m := range reportRE.FindAllStringSubmatch(text, -1) {
		passed, _ := strconv.Atoi(m[3])
		total, _ := strconv.Atoi(m[4])
		if m[1] == t.suite {
			byMode[m[2]] = row{
				suite: m[1], mode: m[2], count: m[3] + " of " + m[4], want: m[4] + " of " + m[4],
				missed: passed != total || total == 0,
			}
		}
	}
	var rows []row
	for _, mode := range t.modes {
		r, ok := byMode[mode]
		if !ok {
			r = row{suite: t.suite, mode: mode, count: "not run", want: "all", missed: true}
		}
		rows = append(rows, r)
	}
	return rows
}

// fixturesControl swaps the stages: a suite that does not notice proves nothing.
func (s *suite) fixturesControl(ctx context.Context) row {
	const name = "TestFixturesNoticeTheOrder"
	r := row{suite: "interceptor fixtures", mode: "control: stages swapped", want: "noticed", count: "noticed"}
	cmd := exec.CommandContext(ctx, "go", "test", "-count=1", "-run", "^"+name+"$", "-v", "./chain")
	text, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(text), "--- PASS: "+name) {
		r.count, r.missed = "not noticed", true
		fmt.Fprintf(s.errs, "%s\n", text)
	}
	return r
}
