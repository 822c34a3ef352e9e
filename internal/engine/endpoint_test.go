package engine_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"

	"github.com/chaintrail/chaintrail/internal/engine/enginetest"
)

// endpoint talks to the engine without a driver.
type endpoint struct {
	url      *url.URL
	token    string
	database string
}

func newEndpoint(t *testing.T) endpoint {
	t.Helper()
	u, err := url.Parse(enginetest.Start(t))
	if err != nil {
		t.Fatal(err)
	}
	token, _ := u.User.Password()
	e := endpoint{token: token, database: strings.TrimPrefix(u.Path, "/")}
	e.url = &url.URL{Scheme: "http", Host: u.Host, Path: "/"}
	return e
}

// do sends a request and returns status, exception code and body. change may alter the request.
func (e endpoint) do(t *testing.T, params map[string]string, body io.Reader, change ...func(*http.Request)) (status int, code, text string) {
	t.Helper()
	query := url.Values{"database": {e.database}}
	for name, value := range params {
		query.Set(name, value)
	}
	u := *e.url
	u.RawQuery = query.Encode()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, u.String(), body)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("X-ClickHouse-Key", e.token)
	for _, f := range change {
		f(request)
	}
	response, err := (&http.Transport{DisableKeepAlives: true, DisableCompression: true}).RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	data, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, response.Header.Get("X-ClickHouse-Exception-Code"), string(data)
}

// must is do for a statement that has to succeed.
func (e endpoint) must(t *testing.T, sql string) string {
	t.Helper()
	status, _, text := e.do(t, nil, strings.NewReader(sql))
	if status != http.StatusOK {
		t.Fatalf("%s: %d %s", sql, status, text)
	}
	return text
}

func TestAuthentication(t *testing.T) {
	t.Parallel()
	e := newEndpoint(t)
	for _, test := range []struct {
		name   string
		change func(*http.Request)
		status int
	}{
		{"no token", func(r *http.Request) { r.Header.Del("X-ClickHouse-Key") }, 401},
		{"wrong key", func(r *http.Request) { r.Header.Set("X-ClickHouse-Key", "x"+e.token) }, 401},
		{"a part of the key", func(r *http.Request) { r.Header.Set("X-ClickHouse-Key", e.token[1:]) }, 401},
		{"password in the address", func(r *http.Request) {
			r.Header.Del("X-ClickHouse-Key")
			r.URL.RawQuery += "&password=" + e.token
		}, 401},
		{"key", func(*http.Request) {}, 200},
		{"basic", func(r *http.Request) { r.Header.Del("X-ClickHouse-Key"); r.SetBasicAuth("anyone", e.token) }, 200},
		{"bearer", func(r *http.Request) {
			r.Header.Del("X-ClickHouse-Key")
			r.Header.Set("Authorization", "Bearer "+e.token)
		}, 200},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			status, code, text := e.do(t, nil, strings.NewReader("SELECT 1"), test.change)
			want := ""
			if test.status == 401 {
				want = "516"
			}
			if status != test.status || code != want {
				t.Errorf("answer is %d with code %q (%s), want %d with code %q", status, code, text, test.status, want)
			}
		})
	}
}

func TestDriverWithWrongToken(t *testing.T) {
	t.Parallel()
	conn := open(t, enginetest.Start(t), func(o *clickhouse.Options) { o.Auth.Password = "guess" })
	if err := conn.Ping(t.Context()); codeOf(err) != 516 {
		t.Errorf("error is %v, want code 516", err)
	}
}

func TestHealthNeedsNoToken(t *testing.T) {
	t.Parallel()
	e := newEndpoint(t)
	for _, path := range []string{"/ping", "/replicas_status"} {
		status, _, text := e.do(t, nil, nil, func(r *http.Request) {
			r.Method, r.URL.Path = http.MethodGet, path
			r.Header.Del("X-ClickHouse-Key")
		})
		if status != http.StatusOK || text != "Ok.\n" {
			t.Errorf("%s answers %d %q", path, status, text)
		}
	}
}

func TestFormats(t *testing.T) {
	t.Parallel()
	e := newEndpoint(t)
	for _, test := range []struct{ name, sql, format, want string }{
		{"default", "SELECT number FROM numbers(3)", "", "0\n1\n2\n"},
		{"clause", "SELECT number FROM numbers(3) FORMAT CSV", "", "0\n1\n2\n"},
		{"parameter", "SELECT number AS n FROM numbers(2)", "JSONEachRow", "{\"n\":0}\n{\"n\":1}\n"},
		{"header once", "SELECT number AS n FROM numbers(3) SETTINGS max_block_size = 1", "CSVWithNames", "\"n\"\n0\n1\n2\n"},
		{"other statement", "SHOW CREATE DATABASE system", "TSVRaw", "CREATE DATABASE system\nENGINE = Atomic\n"},
		{"comment first", "-- what\n/* ever */ SELECT 1;", "", "1\n"},
		{"with", "WITH 2 AS x SELECT x", "", "2\n"},
		{"bytes", "SELECT unhex('00FF00')", "TSVRaw", "\x00\xff\x00\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			params := map[string]string{}
			if test.format != "" {
				params["default_format"] = test.format
			}
			_, _, got := e.do(t, params, strings.NewReader(test.sql))
			if test.name == "other statement" {
				got, test.want = got[:15], test.want[:15]
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("answer (-want +got):\n%s", diff)
			}
		})
	}
}

func TestInsertBodies(t *testing.T) {
	t.Parallel()
	e := newEndpoint(t)
	plain := []byte("1,\"a\"\n2,\"b\"\n")
	var zipped bytes.Buffer
	writer := gzip.NewWriter(&zipped)
	if _, err := writer.Write(plain); err != nil {
		t.Fatal(err)
	}
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	encoder, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name, sql, encoding string
		body                []byte
		rows                string
		status              int
	}{
		{"plain", "INSERT INTO t (a, b) FORMAT CSV", "", plain, "2", 200},
		{"settings before the format", "insert into t SETTINGS max_insert_threads=1\n format CSV;", "", plain, "2", 200},
		{"gzip", "INSERT INTO t FORMAT CSV", "gzip", zipped.Bytes(), "2", 200},
		{"zstd", "INSERT INTO t FORMAT CSV", "zstd", encoder.EncodeAll(plain, nil), "2", 200},
		{"br", "INSERT INTO t FORMAT CSV", "br", plain, "0", 415},
		{"gzip cut short", "INSERT INTO t FORMAT CSV", "gzip", zipped.Bytes()[:zipped.Len()-6], "0", 400},
		{"no gzip", "INSERT INTO t FORMAT CSV", "gzip", plain, "0", 400},
		{"values in the body", "INSERT INTO t VALUES ", "", []byte("(1, 'a'), (2, 'b'), (3, 'c')"), "3", 200},
		{"all in the body", "", "", []byte("INSERT INTO t FORMAT JSONEachRow {\"a\":1,\"b\":\"x\"}"), "1", 200},
		{"malformed", "INSERT INTO t FORMAT CSV", "", []byte("x,y,z\n"), "0", 500},
		{"no data", "INSERT INTO t FORMAT CSV", "", nil, "0", 200},
		{"native cut short", "INSERT INTO t FORMAT Native", "", []byte("\x01\x02\x01a\x06UInt32\x00\x00\x00\x00\x01"), "0", 500},
	} {
		t.Run(test.name, func(t *testing.T) {
			e := e
			e.database = newEndpoint(t).database
			e.must(t, "CREATE TABLE t (a UInt32, b String) ENGINE = MergeTree ORDER BY a")
			status, _, text := e.do(t, map[string]string{"query": test.sql}, bytes.NewReader(test.body), func(r *http.Request) {
				if test.encoding != "" {
					r.Header.Set("Content-Encoding", test.encoding)
				}
			})
			if status != test.status {
				t.Errorf("answer is %d (%s), want %d", status, text, test.status)
			}
			if got := strings.TrimSpace(e.must(t, "SELECT count() FROM t")); got != test.rows {
				t.Errorf("%s rows are stored, want %s", got, test.rows)
			}
		})
	}
}

// TestBrokenInsertStoresNothing cuts the connection in the middle of a body, at the end of a row.
func TestBrokenInsertStoresNothing(t *testing.T) {
	t.Parallel()
	e := newEndpoint(t)
	e.must(t, "CREATE TABLE t (a UInt32) ENGINE = MergeTree ORDER BY a")
	conn, err := net.Dial("tcp", e.url.Host)
	if err != nil {
		t.Fatal(err)
	}
	query := url.Values{"database": {e.database}, "query": {"INSERT INTO t FORMAT CSV"}, "log_comment": {e.database}}
	head := "POST /?" + query.Encode() + " HTTP/1.1\r\nHost: x\r\nX-ClickHouse-Key: " + e.token + "\r\nTransfer-Encoding: chunked\r\n\r\n"
	if _, err := io.WriteString(conn, head+"4\r\n1\n2\n\r\n"); err != nil {
		t.Fatal(err)
	}
	running := "SELECT count() FROM system.processes WHERE endsWith(Settings['log_comment'], '" + e.database + "')"
	e.await(t, running, "1")
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
	e.await(t, running, "0")
	if got := e.must(t, "SELECT count() FROM t"); got != "0\n" {
		t.Errorf("%q rows of a broken INSERT are stored", got)
	}
}

// await asks until the answer is the wanted one.
func (e endpoint) await(t *testing.T, sql, want string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		got := strings.TrimSpace(e.must(t, sql))
		if got == want {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("%s stays at %s, want %s", sql, got, want)
		}
	}
}

func TestCancelledStatementStops(t *testing.T) {
	t.Parallel()
	e := newEndpoint(t)
	for _, test := range []struct{ name, sql string }{
		{"while nothing came yet", "SELECT count() FROM system.numbers WHERE NOT ignore(sipHash64(number))"},
		{"while rows come", "SELECT number, sleepEachRow(0.001) FROM system.numbers SETTINGS max_block_size = 100"},
		{"whole result", "SELECT sum(sipHash64(number)) FROM system.numbers FORMAT JSON"},
		{"no SELECT", "INSERT INTO FUNCTION null('a UInt64') SELECT number FROM system.numbers"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			conn := open(t, enginetest.Start(t))
			comment := e.database + test.name
			ctx, cancel := context.WithCancel(clickhouse.Context(t.Context(), clickhouse.WithSettings(clickhouse.Settings{"log_comment": comment})))
			defer cancel()
			done := make(chan error, 1)
			go func() {
				rows, err := conn.Query(ctx, test.sql)
				if err == nil {
					for rows.Next() {
					}
					err = errors.Join(rows.Err(), rows.Close())
				}
				done <- err
			}()
			running := "SELECT count() FROM system.processes WHERE endsWith(Settings['log_comment'], '" + comment + "')"
			e.await(t, running, "1")
			cancel()
			if err := <-done; err == nil {
				t.Error("the cancelled statement ended without an error")
			}
			e.await(t, running, "0")
		})
	}
}

func TestRefusedRequests(t *testing.T) {
	t.Parallel()
	e := newEndpoint(t)
	for _, test := range []struct {
		name   string
		params map[string]string
		body   string
		change func(*http.Request)
		status int
	}{
		{"empty", nil, " \n", nil, 400},
		{"too large", nil, "SELECT '" + strings.Repeat("x", 17<<20) + "'", nil, 413},
		{"session", map[string]string{"session_id": "1"}, "SELECT 1", nil, 501},
		{"setting with a quote", map[string]string{"a='1', readonly": "0"}, "SELECT 1", nil, 400},
		{"format with a quote", map[string]string{"default_format": "CSV SETTINGS x"}, "SELECT 1", nil, 400},
		{"external tables", nil, "x", func(r *http.Request) { r.Header.Set("Content-Type", "multipart/form-data; boundary=x") }, 501},
		{"method", nil, "SELECT 1", func(r *http.Request) { r.Method = http.MethodPut }, 405},
		{"GET that writes", map[string]string{"query": "CREATE TABLE g (a Int8) ENGINE = Memory"}, "", func(r *http.Request) { r.Method = http.MethodGet }, 403},
		{"GET that reads", map[string]string{"query": "SELECT 1"}, "", func(r *http.Request) { r.Method = http.MethodGet }, 200},
		{"frames that are none", map[string]string{"decompress": "1"}, strings.Repeat("SELECT 1 ", 10), nil, 400},
		{"strange settings value", map[string]string{"log_comment": "a'b\\', readonly='0"}, "SELECT 1", nil, 200},
		{"strange database", map[string]string{"database": "a`b\\`; DROP DATABASE x"}, "SELECT 1", nil, 500},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var change []func(*http.Request)
			if test.change != nil {
				change = append(change, test.change)
			}
			if status, code, text := e.do(t, test.params, strings.NewReader(test.body), change...); status != test.status {
				t.Errorf("answer is %d, code %s (%.300s), want %d", status, code, text, test.status)
			}
		})
	}
}
