package engine

import (
	"crypto/sha256"
	"crypto/subtle"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"time"
	"uuid"
)

// handler answers ClickHouse's HTTP interface.
type handler struct {
	store   *store
	log     *slog.Logger
	token   [sha256.Size]byte
	slots   chan struct{} // one element for each running statement
	waiting chan struct{} // one element for each running or waiting statement
}

func newHandler(cfg ServeConfig, store *store) *handler {
	return &handler{
		store: store, log: cfg.Log, token: sha256.Sum256([]byte(cfg.Token)),
		slots:   make(chan struct{}, cfg.MaxStatements),
		waiting: make(chan struct{}, cfg.MaxStatements+cfg.MaxWaiting),
	}
}

// ServeHTTP implements [http.Handler].
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/ping", "/replicas_status":
		w.Header().Set("Content-Type", "text/plain; charset=UTF-8")
		_, _ = io.WriteString(w, "Ok.\n")
		return
	}
	start := time.Now()
	out := newAnswer(w)
	defer out.patience(writeSide, 0) // the connection serves further requests
	req, err := h.admit(r)
	if err == nil {
		err = h.run(r.Context(), out, req)
	}
	code := 0
	if err != nil {
		failure := failureOf(err)
		code = failure.code
		out.fail(failure)
	}
	if h.log.Enabled(r.Context(), slog.LevelDebug) {
		h.log.LogAttrs(r.Context(), slog.LevelDebug, "engine statement", slog.Duration("duration", time.Since(start)), slog.Int("code", code))
	}
}

// admit checks who asks, and reads what for.
func (h *handler) admit(r *http.Request) (*request, error) {
	if !h.authentic(r) {
		return nil, refuse(http.StatusUnauthorized, codeAuthentication, "AUTHENTICATION_FAILED", "Authentication failed: the password must be the engine's token")
	}
	if r.Method != http.MethodPost && r.Method != http.MethodGet {
		return nil, refuse(http.StatusMethodNotAllowed, codeNotImplemented, "NOT_IMPLEMENTED", "Method %q is not supported", r.Method)
	}
	return parseRequest(r)
}

// authentic compares hashes, so that the time depends neither on the content nor on the length.
func (h *handler) authentic(r *http.Request) bool {
	given := r.Header.Get("X-ClickHouse-Key")
	if _, password, ok := r.BasicAuth(); given == "" && ok {
		given = password
	}
	if bearer, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); given == "" && ok {
		given = bearer
	}
	sum := sha256.Sum256([]byte(given))
	return subtle.ConstantTimeCompare(sum[:], h.token[:]) == 1
}

// answer writes the response of one statement.
type answer struct {
	w       http.ResponseWriter
	body    io.Writer // w, or what compresses into it
	started bool
}

func newAnswer(w http.ResponseWriter) *answer { return &answer{w: w, body: w} }

// begin sets the headers of a result.
func (a *answer) begin(req *request, timezone string) {
	header := a.w.Header()
	header.Set("Content-Type", "application/octet-stream")
	header.Set("X-ClickHouse-Server-Display-Name", "chaintrail-engine")
	header.Set("X-ClickHouse-Timezone", timezone)
	header.Set("X-ClickHouse-Format", req.format)
	if req.queryID == "" {
		req.queryID = uuid.New().String()
	}
	header.Set("X-ClickHouse-Query-Id", req.queryID)
	if req.compress {
		a.body = newFrameWriter(a.w, req.method)
	}
}

// chunk sends a piece of the result and lets the client see it.
func (a *answer) chunk(data []byte) error {
	a.started = true
	a.patience(writeSide, stallTimeout)
	if _, err := a.body.Write(data); err != nil {
		return err
	}
	return http.NewResponseController(a.w).Flush()
}

// whole sends the result at once, with its length: drivers take a length of zero for "no result".
func (a *answer) whole(data []byte) error {
	if a.body == io.Writer(a.w) {
		a.w.Header().Set("Content-Length", strconv.Itoa(len(data)))
	}
	a.started = true
	_, err := a.body.Write(data)
	return err
}

// side is one of the two directions of a request.
type side int

const (
	readSide side = iota
	writeSide
)

// patience bounds how long the next read or write may wait for the client; 0 takes the bound away.
func (a *answer) patience(side side, limit time.Duration) {
	var deadline time.Time
	if limit > 0 {
		deadline = time.Now().Add(limit)
	}
	control := http.NewResponseController(a.w)
	set := control.SetReadDeadline
	if side == writeSide {
		set = control.SetWriteDeadline
	}
	_ = set(deadline) // a connection that is gone reports itself soon enough
}

// exceptionTag marks an error inside a result, as servers do since 25.11.
const exceptionTag = "chaintrailengine"

// fail answers with an error. When a part of the result is out already, the error follows it in the frame that drivers
// look for.
func (a *answer) fail(f *failure) {
	if a.started {
		frame := "\r\n__exception__\r\n" + exceptionTag + "\r\n" + f.text + "\n" +
			strconv.Itoa(len(f.text)+1) + " " + exceptionTag + "\r\n__exception__\r\n"
		_, _ = io.WriteString(a.body, frame)
		return
	}
	header := a.w.Header()
	header.Del("Content-Length")
	header.Set("Content-Type", "text/plain; charset=UTF-8")
	header.Set("X-ClickHouse-Exception-Code", strconv.Itoa(f.code))
	if f.status == http.StatusUnauthorized {
		header.Set("Connection", "close") // the driver leaves the connection of a failed greeting open
		header.Set("WWW-Authenticate", `Basic realm="ClickHouse server HTTP API"`)
	}
	if f.code == codeTooMany {
		header.Set("Retry-After", "1")
	}
	a.w.WriteHeader(f.status)
	_, _ = io.WriteString(a.w, f.text+"\n") //nolint:gosec // plain text, told so by its type
}
