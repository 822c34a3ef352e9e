package interceptor

import (
	"context"
	"errors"
	"io"
	"mime"
	"net"
	"net/http"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/auth"

	"github.com/chaintrail/chaintrail/chain/wire"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

// HTTPHandler serves the interceptors over streamable HTTP, stateless and for both protocol
// generations: each POST is answered by JSON, there are no sessions and no streams. Requests from
// other origins of a browser are refused, and on a loopback listener those for other hosts.
func (s *Server) HTTPHandler() http.Handler {
	origins := http.NewCrossOriginProtection()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case origins.Check(r) != nil || !localHost(r):
			http.Error(w, "origin or host not allowed", http.StatusForbidden)
		case r.Method != http.MethodPost:
			w.Header().Set("Allow", http.MethodPost)
			http.Error(w, "only POST: this endpoint has no sessions and no stream", http.StatusMethodNotAllowed)
		default:
			s.servePost(w, r)
		}
	})
}

// localHost refuses requests that reach a loopback listener under another name (DNS rebinding).
func localHost(r *http.Request) bool {
	local, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	if !ok || !local.IP.IsLoopback() {
		return true
	}
	host := r.Host
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	ip := net.ParseIP(strings.Trim(host, "[]"))
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

func (s *Server) servePost(w http.ResponseWriter, r *http.Request) {
	if content, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); content != wire.ContentJSON {
		http.Error(w, "content type must be application/json", http.StatusUnsupportedMediaType)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, int64(s.opts.MaxMessage)))
	if err != nil {
		status := http.StatusBadRequest
		if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
			status = http.StatusRequestEntityTooLarge
		}
		http.Error(w, http.StatusText(status), status)
		return
	}
	msg, err := wire.Parse(body, wire.Limits{})
	if err != nil {
		id, refusal := jsonx.Value(nil), &wire.RPCError{Code: wire.CodeInvalidRequest, Message: "Invalid Request: batches are not supported"}
		if bad, ok := errors.AsType[*wire.ParseError](err); ok {
			id, refusal = bad.ID, bad.RPC()
		}
		writeJSON(w, http.StatusBadRequest, wire.NewErrorAnswer(id, refusal))
		return
	}
	if msg.Kind != wire.KindRequest { // notifications need no answer, and we ask nothing
		w.WriteHeader(http.StatusAccepted)
		return
	}
	version, refusal := checkHeaders(r.Header, &msg)
	if refusal != nil {
		writeJSON(w, http.StatusBadRequest, wire.NewErrorAnswer(msg.ID, refusal))
		return
	}
	s.answerPost(w, r, &msg, version)
}

func (s *Server) answerPost(w http.ResponseWriter, r *http.Request, msg *wire.Message, version string) {
	ctx := withRequest(r.Context(), &Request{Header: r.Header, Token: auth.TokenInfoFromContext(r.Context())})
	result, err := s.Handle(ctx, msg.Method, msg.Params)
	switch {
	case err == nil:
		writeJSON(w, http.StatusOK, wire.NewResponse(msg.ID, result))
	case errors.Is(err, context.Canceled) && r.Context().Err() != nil: // nobody waits any more
	default:
		e := rpcError(err)
		writeJSON(w, wire.ErrorStatus(version, e.Code), wire.NewErrorAnswer(msg.ID, e))
	}
}

// checkHeaders compares the headers with the body, as 2026-07-28 demands, and returns the version.
func checkHeaders(h http.Header, msg *wire.Message) (version string, refusal *wire.RPCError) {
	header, body := h.Get(wire.HeaderProtocolVersion), wire.MetaOf(msg.Params).ProtocolVersion
	mismatch := func(text string) (string, *wire.RPCError) {
		return "", &wire.RPCError{Code: wire.CodeHeaderMismatch, Message: text}
	}
	switch {
	case header != "" && !slices.Contains(wire.Versions(), header):
		return "", unsupportedVersion(header)
	case body != "" && header != body:
		return mismatch(wire.HeaderProtocolVersion + " differs from _meta")
	case !wire.Modern(header):
		return header, nil
	case body == "":
		return "", badParams("_meta member " + wire.MetaProtocolVersion + " is missing")
	case h.Get(wire.HeaderMethod) != msg.Method:
		return mismatch(wire.HeaderMethod + " differs from the method")
	}
	return header, nil
}

func writeJSON(w http.ResponseWriter, status int, body []byte) {
	w.Header().Set("Content-Type", wire.ContentJSON)
	w.WriteHeader(status)
	_, _ = w.Write(body) //nolint:gosec // JSON, by its content type; a client that left is no fault of ours
}
