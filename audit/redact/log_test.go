package redact

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/chaintrail/chaintrail/internal/detect"
)

func TestLogHandler(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	detector, err := detect.New(detect.Config{})
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(NewLogHandler(slog.NewTextHandler(&out, nil), detector))
	log = log.With(slog.String("url", "nats://u:hunter2@host")).WithGroup("g").With(slog.String("api_key", "hunter2"))
	log.Info("password=hunter2", slog.Any("err", errors.New("bearer hunter2hunter2")), slog.Int("n", 3),
		slog.Group("in", slog.Int("secret", 17), slog.Any("raw", []byte("token=hunter2"))), slog.Bool("ok", true))
	got := out.String()
	if strings.Contains(got, "hunter2") || strings.Contains(got, "17 ") {
		t.Errorf("a secret is in the log: %s", got)
	}
	for _, want := range []string{"host", "g.api_key=[redacted:secret]", "g.n=3", "g.ok=true", "g.in.secret=[redacted:secret]", "nats://u:[redacted:url_password]@host"} {
		if !strings.Contains(got, want) {
			t.Errorf("log lacks %q: %s", want, got)
		}
	}
}
