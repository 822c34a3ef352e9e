package ledger_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chaintrail/chaintrail/audit/ledger"
)

func headOf(origin string, size uint64) *ledger.Checkpoint {
	return &ledger.Checkpoint{Origin: origin, Size: size, Time: time.Now().UTC()}
}

func TestFileAnchorKeepsEveryHead(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "heads")
	a := ledger.NewFileAnchor(path)
	if note, err := a.Newest(t.Context(), "a/0"); note != nil || err != nil {
		t.Errorf("before the first head: %q, %v", note, err)
	}
	for _, h := range []*ledger.Checkpoint{headOf("a/0", 1), headOf("a/0", 7), headOf("b/0", 9)} {
		if err := a.Put(t.Context(), h, []byte(h.Origin+" signed\n")); err != nil {
			t.Fatal(err)
		}
	}
	// Half a line, as a full disk or a power cut leaves it.
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(`{"origin":"a/0","size":99`); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if note, err := a.Newest(t.Context(), "a/0"); string(note) != "a/0 signed\n" || err != nil {
		t.Errorf("behind half a line: %q, %v", note, err)
	}
	if err := a.Put(t.Context(), headOf("a/0", 8), []byte("eighth")); err != nil {
		t.Fatal(err)
	}
	if note, err := a.Newest(t.Context(), "a/0"); string(note) != "eighth" || err != nil {
		t.Errorf("the newest is %q, %v; want eighth", note, err)
	}
	if text, err := os.ReadFile(path); err != nil || strings.Count(string(text), "\n") != 5 {
		t.Errorf("the file holds %q (%v)", text, err)
	}
	if _, err := ledger.NewFileAnchor(t.TempDir()).Newest(t.Context(), "a/0"); err == nil {
		t.Error("a folder was read as a file")
	}
}

func TestWebhookAnchorSigns(t *testing.T) {
	t.Parallel()
	secret := []byte("shared")
	status := http.StatusNoContent
	var header string
	var body []byte
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header = r.Header.Get("Chaintrail-Signature")
		body, _ = io.ReadAll(r.Body)
		w.WriteHeader(status)
	}))
	t.Cleanup(server.Close)
	a := ledger.NewWebhookAnchor(server.URL, secret)
	if err := a.Put(t.Context(), headOf("a/0", 3), []byte("signed")); err != nil {
		t.Fatal(err)
	}
	if err := ledger.CheckWebhook(secret, header, body, time.Minute); err != nil {
		t.Errorf("the request does not verify: %v", err)
	}
	if !strings.Contains(string(body), `"note":"signed"`) {
		t.Errorf("posted %s", body)
	}
	for name, check := range map[string]error{
		"another secret": ledger.CheckWebhook([]byte("other"), header, body, time.Minute),
		"another body":   ledger.CheckWebhook(secret, header, append(body, ' '), time.Minute),
		"another time":   ledger.CheckWebhook(secret, strings.Replace(header, "t=1", "t=2", 1), body, time.Minute),
		"long ago":       ledger.CheckWebhook(secret, header, body, -1),
		"no header":      ledger.CheckWebhook(secret, "", body, time.Minute),
	} {
		if !errors.Is(check, ledger.ErrWebhook) {
			t.Errorf("%s gave %v", name, check)
		}
	}
	for _, status = range []int{http.StatusFound, http.StatusForbidden, http.StatusInternalServerError} {
		if err := a.Put(t.Context(), headOf("a/0", 3), []byte("signed")); err == nil {
			t.Errorf("status %d counts as anchored", status)
		}
	}
}
