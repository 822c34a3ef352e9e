package engine

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
)

func TestFindLibrary(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	create := func(path string) string {
		path = filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	flag, env, data := create("flag.so"), create("env.so"), create("data/lib/libchdb.so")
	for _, test := range []struct{ name, explicit, dataDir, env, want string }{
		{"flag wins", flag, filepath.Join(dir, "data"), env, flag},
		{"environment before data", "", filepath.Join(dir, "data"), env, env},
		{"data directory", "", filepath.Join(dir, "data"), "", data},
		{"flag that is missing", filepath.Join(dir, "no.so"), filepath.Join(dir, "data"), env, ""},
		{"environment that is missing", "", filepath.Join(dir, "data"), filepath.Join(dir, "no.so"), ""},
		{"a folder", dir, "", "", ""},
		{"nowhere", "", filepath.Join(dir, "other"), "", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got, err := FindLibrary(test.explicit, test.dataDir, func(string) string { return test.env })
			if got != test.want {
				t.Errorf("found %q (%v), want %q", got, err, test.want)
			}
			if test.want == "" && (!errors.Is(err, ErrLibraryMissing) || !strings.Contains(err.Error(), "make engine")) {
				t.Errorf("error %v does not say what to do", err)
			}
		})
	}
}

func TestFramesCutAnywhereAreNoEnd(t *testing.T) {
	t.Parallel()
	var frames bytes.Buffer
	writer := newFrameWriter(&frames, "LZ4")
	for range 3 {
		if _, err := writer.Write(bytes.Repeat([]byte("row"), 40)); err != nil {
			t.Fatal(err)
		}
	}
	size := frames.Len() / 3
	for cut := range frames.Len() + 1 {
		got, err := io.ReadAll(decodeFrames(iotest.OneByteReader(bytes.NewReader(frames.Bytes()[:cut]))))
		if whole := cut%size == 0; whole != (err == nil) {
			t.Errorf("%d of %d bytes gave %d bytes and %v", cut, frames.Len(), len(got), err)
		}
	}
}

func TestFrameWriterSplitsLargeResults(t *testing.T) {
	t.Parallel()
	want := bytes.Repeat([]byte("0123456789abcdef"), 3*frameSize/16+7)
	for _, method := range []string{"LZ4", "ZSTD", "NONE", ""} {
		var frames bytes.Buffer
		if _, err := newFrameWriter(&frames, method).Write(want); err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(decodeFrames(&frames)); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: %d bytes came back with %v, want %d", method, len(got), err, len(want))
		}
	}
}

func TestCheckTree(t *testing.T) {
	t.Parallel()
	g := newGuard([]string{"numbers", "url", "brandNew"})
	for tree, allowed := range map[string]bool{
		"Function numbers (children 1)": true, "Function plus (children 1)": true, "Identifier t.file": true, "": true,
		"Function brandNew (alias x) (children 1)": false, "  Function FILE": false, " Identifier file": false,
		"Function `url` (children 1)": false, "ColumnsApplyTransformer": false, "TableIdentifier /etc/passwd": false,
		"Function aiSomething (children 1)": false,
	} {
		if err := g.checkTree(tree); (err == nil) != allowed {
			t.Errorf("tree %q gave %v", tree, err)
		}
	}
}

func TestOverload(t *testing.T) {
	t.Parallel()
	h := &handler{slots: make(chan struct{}, 1), waiting: make(chan struct{}, 2)}
	release, err := h.enter(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	entered := make(chan func(), 1)
	go func() {
		next, err := h.enter(t.Context())
		if err != nil {
			t.Error(err)
		}
		entered <- next
	}()
	for len(h.waiting) < 2 {
		runtime.Gosched()
	}
	if _, err := h.enter(t.Context()); failureOf(err).code != codeTooMany {
		t.Errorf("a third statement got %v, want code %d", err, codeTooMany)
	}
	release()
	(<-entered)()
	if len(h.slots) != 0 || len(h.waiting) != 0 {
		t.Errorf("%d places and %d tickets are left over", len(h.slots), len(h.waiting))
	}
}

func TestQuoting(t *testing.T) {
	t.Parallel()
	got := setList(map[string]string{"b": `it's \`, "a": "1"})
	if diff := cmp.Diff(`a='1', b='it\'s \\'`, got); diff != "" {
		t.Errorf("settings (-want +got):\n%s", diff)
	}
	if got := quoteName("a`b'"); got != "`a\\`b'`" {
		t.Errorf("name is %s", got)
	}
}

// FuzzRequest holds that no request makes the parser panic, and that no setting's name can carry SQL.
func FuzzRequest(f *testing.F) {
	f.Add("query=INSERT+INTO+t+FORMAT+CSV&max_threads=1", []byte("1,2\n"), "")
	f.Add("decompress=1&readonly=2&param_x=1", []byte("SELECT {x:Int8}"), "")
	f.Add("a%27b=1", []byte("SELECT 1"), "gzip")
	f.Fuzz(func(t *testing.T, query string, body []byte, encoding string) {
		request := httptest.NewRequest(http.MethodPost, "/", bytes.NewReader(body))
		request.URL = &url.URL{Path: "/", RawQuery: query}
		request.Header.Set("Content-Encoding", encoding)
		req, err := parseRequest(request)
		if err != nil {
			if f := failureOf(err); f.status < 400 || f.code == 0 || !strings.HasPrefix(f.text, "Code: ") {
				t.Errorf("failure is %+v", f)
			}
			return
		}
		for name := range req.settings {
			if strings.ContainsAny(name, "'`\\ ,=;()") {
				t.Errorf("setting name %q", name)
			}
		}
		if strings.ContainsAny(req.format, "'`\\ ,=;()") {
			t.Errorf("format %q", req.format)
		}
		if req.kind == kindInsert {
			_, _ = io.Copy(io.Discard, req.data)
		}
	})
}

// A library that is still being unpacked must not be loaded.
func TestHalfFetchedLibraryIsNotFound(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	candidates := checkouts(root, 1)
	if len(candidates) == 0 {
		return // no library is pinned for this platform
	}
	if err := os.MkdirAll(filepath.Dir(candidates[0]), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(candidates[0], []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := FindCheckoutLibrary(root); !errors.Is(err, ErrLibraryMissing) {
		t.Errorf("found %q (%v)", got, err)
	}
	if err := os.WriteFile(filepath.Join(filepath.Dir(candidates[0]), fetchedMark), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := FindCheckoutLibrary(root); got != candidates[0] {
		t.Errorf("found %q (%v), want %q", got, err, candidates[0])
	}
}
