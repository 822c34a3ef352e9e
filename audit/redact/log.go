package redact

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/chaintrail/chaintrail/internal/detect"
)

// LogHandler takes secrets out of log records before they reach next: out of messages, and out of
// attribute values, which are judged by their key as well. Values that are neither text nor a number
// are logged as the text that fmt makes of them.
type LogHandler struct {
	next   slog.Handler
	redact *detect.Detector
}

// NewLogHandler returns a handler before next.
func NewLogHandler(next slog.Handler, redact *detect.Detector) *LogHandler {
	return &LogHandler{next: next, redact: redact}
}

// Enabled implements slog.Handler.
func (h *LogHandler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.next.Enabled(ctx, level)
}

// Handle implements slog.Handler.
func (h *LogHandler) Handle(ctx context.Context, rec slog.Record) error {
	clean := slog.NewRecord(rec.Time, rec.Level, h.redact.RedactString(rec.Message), rec.PC)
	rec.Attrs(func(a slog.Attr) bool {
		clean.AddAttrs(h.attr(a))
		return true
	})
	return h.next.Handle(ctx, clean)
}

// WithAttrs implements slog.Handler.
func (h *LogHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &LogHandler{next: h.next.WithAttrs(h.attrs(attrs)), redact: h.redact}
}

// WithGroup implements slog.Handler.
func (h *LogHandler) WithGroup(name string) slog.Handler {
	return &LogHandler{next: h.next.WithGroup(name), redact: h.redact}
}

func (h *LogHandler) attrs(attrs []slog.Attr) []slog.Attr {
	clean := make([]slog.Attr, len(attrs))
	for i, a := range attrs {
		clean[i] = h.attr(a)
	}
	return clean
}

func (h *LogHandler) attr(a slog.Attr) slog.Attr {
	v := a.Value.Resolve()
	kind := v.Kind()
	if kind == slog.KindBool || kind == slog.KindDuration || kind == slog.KindTime {
		return slog.Attr{Key: a.Key, Value: v}
	}
	if kind == slog.KindGroup {
		return slog.Attr{Key: a.Key, Value: slog.GroupValue(h.attrs(v.Group())...)}
	}
	if h.redact.SecretName(a.Key) {
		return slog.String(a.Key, detect.Marker(detect.KindByName))
	}
	if kind == slog.KindString {
		return slog.String(a.Key, h.redact.RedactString(v.String()))
	}
	if kind == slog.KindAny {
		return slog.String(a.Key, h.redact.RedactString(anyText(v.Any())))
	}
	return slog.Attr{Key: a.Key, Value: v} // a number
}

func anyText(v any) string {
	if b, ok := v.([]byte); ok {
		return string(b)
	}
	return fmt.Sprint(v)
}
