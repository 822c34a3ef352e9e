package chdb

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

func TestLoadRefusesWhatIsNoEngine(t *testing.T) {
	t.Parallel()
	garbage := filepath.Join(t.TempDir(), "libchdb.so")
	if err := os.WriteFile(garbage, bytes.Repeat([]byte("no library "), 1000), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{garbage, filepath.Join(t.TempDir(), "missing.so"), "libc.so.6"} {
		if _, err := Load(path); err == nil {
			t.Errorf("%s was loaded", path)
		}
	}
}

func TestCodeOf(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		message string
		code    int
	}{
		{"Code: 60. DB::Exception: Table d1.nosuch does not exist. (UNKNOWN_TABLE)", 60},
		{"Error: Code: 164. DB::Exception: x", 164},
		{"Code: 36. DB::Exception: Code: 62. DB::Exception: y", 36},
		{"send_insert does not support INSERT ... SELECT", 0},
		{"Code: ", 0},
		{"Code: 12", 0},
		{"Code: .", 0},
		{"Code: x12.", 0},
		{"Code: 99999999999999999999.", 0},
		{"", 0},
	} {
		if got := newError(test.message).Code; got != test.code {
			t.Errorf("code of %q is %d, want %d", test.message, got, test.code)
		}
	}
}

func FuzzCodeOf(f *testing.F) {
	f.Add("Code: 60. DB::Exception: x")
	f.Fuzz(func(t *testing.T, message string) {
		code := codeOf(message)
		if code < 0 {
			t.Errorf("code of %q is %d", message, code)
		}
		if code > 0 && !strings.Contains(strings.ReplaceAll(message, "Code: 0", "Code: "), strconv.Itoa(code)+".") {
			t.Errorf("code %d is not in %q", code, message)
		}
	})
}

func TestClosedConnection(t *testing.T) {
	t.Parallel()
	closed := &Conn{}
	closed.Close()
	if _, _, err := closed.Exec("SELECT 1", "TSV"); !errors.Is(err, errClosed) {
		t.Errorf("Exec gave %v", err)
	}
	if _, err := closed.Stream("SELECT 1", "TSV"); !errors.Is(err, errClosed) {
		t.Errorf("Stream gave %v", err)
	}
	if _, err := closed.Insert("INSERT INTO t", "TSV"); !errors.Is(err, errClosed) {
		t.Errorf("Insert gave %v", err)
	}
	if class, _, err := closed.Classify("SELECT 1"); !errors.Is(err, errClosed) || class != ClassUnknown {
		t.Errorf("Classify gave %v and %v", class, err)
	}
}
