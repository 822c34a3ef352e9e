package gateway

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"

	"github.com/chaintrail/chaintrail/chain/wire"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

// An MCP client that is refused with status 401 looks for the server's authorization metadata at
// well-known places, which depend on the URL that it knows: the gateway's. The gateway serves there
// what the backend has at its own, with the backend's URL as resource replaced by the gateway's: RFC
// 9728 section 3.3 has the client refuse it otherwise. All else, the authorization servers among it,
// passes as it is; the client talks to these itself.

const (
	wellKnownPrefix  = "/.well-known/"
	resourceMetadata = "oauth-protected-resource"
	maxMetadata      = 1 << 20 // bytes of a metadata document
)

var wellKnownName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// wellKnownPlace is a well-known document of a backend, as a client asks for it.
type wellKnownPlace struct {
	backend  string
	name     string
	resource string // path of the gateway's URL that the client has in mind; empty: the root
	appended bool   // behind the path of the endpoint (OpenID Connect), not before it (RFC 8414)
}

// placeOf takes a path apart: /.well-known/NAME/BACKEND/mcp, /BACKEND/mcp/.well-known/NAME, or
// /.well-known/NAME, which only makes sense where there is one backend.
func placeOf(path, only string) (p wellKnownPlace, ok bool) {
	if rest, found := strings.CutPrefix(path, wellKnownPrefix); found {
		p.name, rest, found = strings.Cut(rest, "/")
		if !found || rest == "" {
			p.backend = only
		} else if p.backend, ok = backendOf("/" + rest); ok {
			p.resource = "/" + p.backend + "/mcp"
		}
	} else if endpoint, name, found := strings.Cut(path, wellKnownPrefix); found {
		if p.backend, ok = backendOf(endpoint); ok {
			p.name, p.resource, p.appended = name, endpoint, true
		}
	}
	return p, p.backend != "" && wellKnownName.MatchString(p.name)
}

// wellKnown serves a well-known document of the backend. It is no part of MCP: no event tells of it.
func (r *relay) wellKnown(w http.ResponseWriter, req *http.Request, p wellKnownPlace) {
	if req.Method != http.MethodGet && req.Method != http.MethodHead && req.Method != http.MethodOptions {
		w.Header().Set("Allow", "GET, HEAD, OPTIONS")
		http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
		return
	}
	ctx, end := r.life.begin(req.Context(), false)
	if end == nil {
		http.Error(w, "gateway is stopping", http.StatusServiceUnavailable)
		return
	}
	defer end()
	status, header, body, err := r.document(ctx, req, p)
	if err != nil {
		r.lane.log.WarnContext(ctx, "metadata not fetched", slog.String("document", p.name), slog.Any("error", err))
		http.Error(w, "no connection to the server", http.StatusBadGateway)
		return
	}
	if p.name == resourceMetadata && status == http.StatusOK {
		body = withResource(body, publicURL(req)+p.resource)
	}
	copyHeaders(w.Header(), header)
	if req.Method != http.MethodHead {
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	}
	w.WriteHeader(status)
	_, _ = w.Write(body) //nolint:gosec // G705: the backend's answer, of the backend's type; the client may be gone
}

// document asks the places where the backend may have it, the first that has it wins.
func (r *relay) document(ctx context.Context, req *http.Request, p wellKnownPlace) (status int, header http.Header, body []byte, err error) {
	for _, at := range r.places(p) {
		resp, err := r.sendTo(ctx, req, at, nil)
		if err != nil {
			return 0, nil, nil, err
		}
		body, err = io.ReadAll(http.MaxBytesReader(nil, resp.Body, maxMetadata))
		_ = resp.Body.Close()
		if err != nil {
			return 0, nil, nil, fmt.Errorf("read metadata: %w", err)
		}
		if status, header = resp.StatusCode, resp.Header; status != http.StatusNotFound {
			break
		}
	}
	return status, header, body, nil
}

// places are the URLs of a document: where the backend said that it is, before or behind the path of
// its endpoint, and for a resource the root.
func (r *relay) places(p wellKnownPlace) []url.URL {
	var out []url.URL
	if named := r.metadata.Load(); named != nil && p.name == resourceMetadata && !p.appended {
		out = append(out, *named)
	}
	path := strings.TrimSuffix(r.url.Path, "/")
	at := *r.url
	at.RawPath, at.RawQuery = "", ""
	switch {
	case p.appended:
		at.Path = path + wellKnownPrefix + p.name
		return append(out, at)
	case p.resource != "":
		at.Path = wellKnownPrefix + p.name + path
		out = append(out, at)
		if p.name != resourceMetadata {
			return out
		}
	}
	at.Path = wellKnownPrefix + p.name
	return append(out, at)
}

// withResource replaces the resource in a metadata document.
func withResource(body []byte, resource string) []byte {
	if _, err := jsonx.Verify(body, 0); err != nil {
		return body
	}
	if _, ok := wire.MemberString(body, "resource"); !ok {
		return body
	}
	quoted, err := jsonx.AppendQuote(nil, resource)
	if err != nil {
		return body
	}
	return wire.WithMember(body, "resource", quoted)
}

var challengeURL = regexp.MustCompile(`(?i)\bresource_metadata\s*=\s*(?:"([^"\\]*)"|([^\s",]+))`)

// headersBack copies the headers of an upstream answer. In a challenge it puts the gateway's place of
// the metadata for one of the backend's own origin, which it remembers; another one is left as it is.
func (r *relay) headersBack(v *visit, from http.Header) {
	to := v.w.Header()
	copyHeaders(to, from)
	challenges := from["Www-Authenticate"]
	if len(challenges) == 0 {
		return
	}
	ours := publicURL(v.r) + wellKnownPrefix + resourceMetadata + "/" + r.lane.backend.Name + "/mcp"
	out := make([]string, len(challenges))
	for i, line := range challenges {
		out[i] = challengeURL.ReplaceAllStringFunc(line, func(param string) string {
			found := challengeURL.FindStringSubmatch(param)
			at, err := url.Parse(found[1] + found[2])
			if err != nil || at.Scheme != r.url.Scheme || at.Host != r.url.Host {
				return param
			}
			r.metadata.Store(at)
			return `resource_metadata="` + ours + `"`
		})
	}
	to["Www-Authenticate"] = out
}

// publicURL is the gateway's origin as the client of the request sees it.
func publicURL(r *http.Request) string {
	scheme := "http"
	if r.TLS != nil || strings.EqualFold(r.Header.Get("X-Forwarded-Proto"), "https") {
		scheme = "https"
	}
	return scheme + "://" + r.Host
}
