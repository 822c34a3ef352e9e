package telemetry

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
)

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close() //nolint:errcheck // read whole
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

func TestEndpoints(t *testing.T) {
	t.Parallel()
	registry := NewRegistry()
	Gauge(registry, "journal", "events", "Events.", func() float64 { return 7 })
	var reason error
	s, err := Listen(t.Context(), "127.0.0.1:0", registry, func() error { return reason })
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	if code, body := get(t, s.URL()+"/metrics"); code != http.StatusOK || !strings.Contains(body, "chaintrail_journal_events 7") {
		t.Errorf("metrics answer %d: %s", code, body)
	}
	if code, _ := get(t, s.URL()+"/readyz"); code != http.StatusOK {
		t.Errorf("readyz answers %d, want 200", code)
	}
	reason = errors.New("journal is full")
	if code, body := get(t, s.URL()+"/readyz"); code != http.StatusServiceUnavailable || !strings.Contains(body, "journal is full") {
		t.Errorf("readyz answers %d: %s", code, body)
	}
	if code, _ := get(t, s.URL()+"/healthz"); code != http.StatusOK {
		t.Errorf("healthz answers %d, want 200", code)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
