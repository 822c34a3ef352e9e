package gateway

import (
	"mime"
	"net/http"
	"net/textproto"
	"strings"
)

// hopByHop reports whether a header belongs to one connection only (RFC 9110 section 7.6.1).
func hopByHop(name string) bool {
	switch name {
	case "Connection", "Proxy-Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization",
		"Te", "Trailer", "Transfer-Encoding", "Upgrade":
		return true
	}
	return false
}

// copyHeaders copies end-to-end headers, but not those of the body, which the caller sets.
func copyHeaders(dst, src http.Header) {
	named := connectionHeaders(src)
	for name, values := range src {
		if hopByHop(name) || named[name] || name == "Content-Length" || name == "Accept-Encoding" {
			continue
		}
		dst[name] = values
	}
}

func connectionHeaders(h http.Header) map[string]bool {
	values := h["Connection"]
	if len(values) == 0 {
		return nil
	}
	named := make(map[string]bool)
	for _, v := range values {
		for name := range strings.SplitSeq(v, ",") {
			named[textproto.CanonicalMIMEHeaderKey(strings.TrimSpace(name))] = true
		}
	}
	return named
}

func contentType(h http.Header) string {
	t, _, err := mime.ParseMediaType(h.Get("Content-Type"))
	if err != nil {
		t, _, _ = strings.Cut(h.Get("Content-Type"), ";")
	}
	return strings.ToLower(strings.TrimSpace(t))
}
