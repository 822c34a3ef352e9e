package gateway

import (
	"maps"
	"mime"
	"net/http"
	"net/textproto"
	"strings"

	"github.com/chaintrail/chaintrail/chain/wire"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
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

// rewriteHeaders makes the headers that repeat parts of the body follow a mutation: Mcp-Name, and
// Mcp-Param-* of annotated arguments.
func rewriteHeaders(h http.Header, before, after *wire.Message) {
	if h.Get(wire.HeaderName) != "" {
		if name, ok := wire.TargetName(after.Method, after.Params); ok {
			h.Set(wire.HeaderName, wire.EncodeHeader(name))
		}
	}
	var old, now map[string]jsonx.Value
	for name := range maps.Clone(h) {
		if !strings.HasPrefix(name, wire.HeaderParamPrefix) {
			continue
		}
		if old == nil {
			old, now = arguments(before.Params), arguments(after.Params)
		}
		argument := annotated(name, h.Get(name), old)
		if argument == "" {
			continue // not ours to guess: the backend refuses a header that differs (-32020)
		}
		if value, ok := now[argument]; ok && string(value) != "null" {
			h.Set(name, wire.EncodeHeader(headerForm(value)))
		} else {
			h.Del(name)
		}
	}
}

// annotated finds the argument that a Mcp-Param header repeats: the one of its name, else the only
// one with its value.
func annotated(header, value string, args map[string]jsonx.Value) string {
	value, ok := wire.DecodeHeader(value)
	if !ok {
		return ""
	}
	want := strings.TrimPrefix(header, wire.HeaderParamPrefix)
	found := ""
	for name, v := range args {
		if headerForm(v) != value {
			continue
		}
		if strings.EqualFold(name, want) {
			return name
		}
		if found != "" {
			found = "\x00"
			continue
		}
		found = name
	}
	if found == "\x00" {
		return ""
	}
	return found
}

func headerForm(v jsonx.Value) string {
	if s, ok := jsonx.StringOf(v); ok {
		return s
	}
	return string(v)
}

func arguments(params jsonx.Value) map[string]jsonx.Value {
	out := make(map[string]jsonx.Value)
	args, _ := wire.Member(params, "arguments")
	for m := range jsonx.Members(args) {
		out[string(m.Name)] = m.Value
	}
	return out
}
