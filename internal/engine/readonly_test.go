package engine_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestReadonly(t *testing.T) {
	t.Parallel()
	e := newEndpoint(t)
	e.must(t, "CREATE TABLE t (a UInt32, file String, url String) ENGINE = MergeTree ORDER BY a")
	e.must(t, "INSERT INTO t VALUES (1, 'f', 'u')")
	secret := filepath.Join(t.TempDir(), "secret.csv")
	if err := os.WriteFile(secret, []byte("leak\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	written := filepath.Join(t.TempDir(), "out.csv")
	for _, test := range []struct {
		sql     string
		allowed bool
	}{
		{"SELECT a, url FROM t WHERE url LIKE '%file(%'", true},
		{"SELECT t.file FROM t", true},
		{"WITH x AS (SELECT a FROM t) SELECT * FROM x FORMAT JSON", true},
		{"SELECT count() FROM numbers(10) WHERE number < {n:UInt8}", true},
		{"SHOW TABLES", true},
		{"DESCRIBE TABLE t", true},
		{"EXPLAIN SELECT * FROM t", true},
		{"SELECT * FROM system.tables LIMIT 1", true},
		{"EXISTS TABLE t", true},
		{"SELECT 1;", true},
		{"-- note\nSELECT 1", true},
		{"SELECT * FROM view(SELECT a FROM t)", true},

		{"INSERT INTO t VALUES (2, '', '')", false},
		{"DROP TABLE t", false},
		{"CREATE TABLE u (a Int8) ENGINE = Memory", false},
		{"SET readonly = 0", false},
		{"SELECT 1 SETTINGS readonly = 0", false},
		{"SYSTEM FLUSH LOGS", false},
		{"KILL QUERY WHERE 1", false},
		{"SELECT 1; DROP TABLE t", false},
		{"ALTER TABLE t DELETE WHERE 1", false},
		{"OPTIMIZE TABLE t", false},
		{"SELECT 1 INTO OUTFILE '" + written + "'", false},
		{"SELECT * FROM file('" + secret + "')", false},
		{"SELECT file('" + secret + "')", false},
		{"SELECT FILE('" + secret + "')", false},
		{"SELECT `file`('" + secret + "')", false},
		{"SELECT `f\\x69le`('" + secret + "')", false},
		{"SELECT file/**/('" + secret + "')", false},
		{"SELECT arrayMap(file, ['" + secret + "'])", false},
		{"SELECT arrayMap(x -> file(x), ['" + secret + "'])", false},
		{"SELECT * APPLY(file) FROM (SELECT '" + secret + "')", false},
		{"SELECT * FROM '" + secret + "'", false},
		{"SELECT * FROM `" + secret + "`", false},
		{"SELECT * FROM default.`" + secret + "`", false},
		{"DESCRIBE file('" + secret + "')", false},
		{"DESCRIBE TABLE url('http://127.0.0.1:9/x.csv')", false},
		{"EXPLAIN SELECT * FROM file('" + secret + "')", false},
		{"EXPLAIN AST SELECT file('" + secret + "')", false},
		{"SELECT * FROM url('http://127.0.0.1:9/x.csv')", false},
		{"SELECT * FROM s3('http://127.0.0.1:9/b/x.csv')", false},
		{"SELECT * FROM remote('127.0.0.1:9', system.one)", false},
		{"SELECT * FROM mysql('127.0.0.1:9', 'a', 'b', 'c', 'd')", false},
		{"SELECT * FROM sqlite('" + secret + "', 't')", false},
		{"SELECT * FROM executable('ls', 'TSV', 'a String')", false},
		{"SELECT * FROM postgresql('127.0.0.1:9', 'a', 'b', 'c', 'd')", false},
		{"SELECT * FROM view(SELECT * FROM file('" + secret + "'))", false},
		{"SELECT 1 IN (SELECT * FROM file('" + secret + "'))", false},
		{"SELECT 1 UNION ALL SELECT * FROM url('http://127.0.0.1:9/')", false},
		{"SELECT hasColumnInTable('127.0.0.1:9', 'a', 'b', 'c', 'd', 'e')", false},
		{"SELECT aiGenerate('x')", false},
		{"CREATE TEMPORARY TABLE x (a Int8)", false},
		{"USE system", false},
		{"SELECT * FROM eval('SELECT file(''" + secret + "'')')", false},
		{"SELECT * FROM filesystem('/')", false},
		{"SELECT * FROM loop(file('" + secret + "'))", false},
		{"SELECT * FROM viewExplain('EXPLAIN', '', (SELECT * FROM file('" + secret + "')))", false},
		{"(SELECT file('" + secret + "'))", false},
		{"FROM file('" + secret + "') SELECT *", false},
		{"SELECT sum(a) OVER (ORDER BY file('" + secret + "')) FROM t", false},
		{"SELECT a FROM t ORDER BY a WITH FILL INTERPOLATE (a AS length(file('" + secret + "')))", false},
		{"SELECT a FROM t WINDOW w AS (PARTITION BY file('" + secret + "'))", false},
		{"SELECT * REPLACE(file('" + secret + "') AS url) FROM t", false},
		{"SELECT * EXCEPT(a) REPLACE(file(url) AS url) FROM t", false},
		{"SELECT COLUMNS('url') APPLY(x -> file(x)) FROM t", false},
		{"SELECT 1 LIMIT length(file('" + secret + "'))", false},
		{"SELECT a FROM t LIMIT 1 BY file('" + secret + "')", false},
		{"SELECT a FROM t QUALIFY file('" + secret + "') = ''", false},
		{"SELECT CAST(file('" + secret + "'), 'String')", false},
		{"SHOW TABLES WHERE name = file('" + secret + "')", false},
		{"SELECT * FROM t WHERE a IN file('" + secret + "')", false},
		{"SELECT * FROM t SAMPLE 1 ARRAY JOIN [file('" + secret + "')] AS q", false},
		{"CHECK TABLE file('" + secret + "')", false},
		{"SELECT * FROM {x:Identifier}", false},
		{"SHOW COLUMNS FROM t WHERE field = file('" + secret + "')", false},
		{"SHOW SETTINGS LIKE 'max_threads'", true},
		{"SELECT dictGet(file('" + secret + "'), 'a', 1)", false},
		{"SELECT 1 FORMAT JSON SETTINGS max_threads = 1", false},
		{"BACKUP TABLE t TO File('/tmp/x')", false},
		{"WITH file('" + secret + "') AS f SELECT f", false},
		{"WITH file AS g SELECT g('" + secret + "')", false},
		{"SELECT x.file('" + secret + "')", false},
	} {
		t.Run(test.sql[:min(len(test.sql), 60)], func(t *testing.T) {
			status, code, text := e.do(t, map[string]string{"readonly": "1", "param_n": "5", "param_x": secret}, strings.NewReader(test.sql))
			if test.allowed != (status == 200) {
				t.Errorf("answer is %d with code %s: %.200s", status, code, text)
			}
			if strings.Contains(text, "leak") {
				t.Errorf("the file was read: %.200s", text)
			}
		})
	}
	t.Run("after all", func(t *testing.T) {
		if got := e.must(t, "SELECT count() FROM t"); got != "1\n" {
			t.Errorf("the table has %q rows, want 1", got)
		}
		if _, err := os.Stat(written); err == nil {
			t.Error("a file was written")
		}
	})
}
