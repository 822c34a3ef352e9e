package wire

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

// StatusError is an HTTP answer that carries no JSON-RPC.
type StatusError struct {
	Status     int
	RetryAfter time.Duration // 0 when the server named none
}

// Error implements error.
func (e *StatusError) Error() string {
	return fmt.Sprintf("server answered HTTP status %d %s", e.Status, http.StatusText(e.Status))
}

// answer takes the answer of a POST that is not a stream.
func (c *HTTPClient) answer(
	resp *http.Response, content string, msg outgoing, session string, deliver func([]byte),
) error {
	defer func() { _ = resp.Body.Close() }()
	body, err := readBody(resp, c.opts.MaxMessage)
	switch {
	case err != nil:
		return fmt.Errorf("read answer: %w", err)
	case len(body) > c.opts.MaxMessage:
		return fmt.Errorf("%w: answer exceeds %d bytes", ErrTooLarge, c.opts.MaxMessage)
	case resp.StatusCode/100 == 2 && !msg.isCall():
		if msg.method == MethodInitialized {
			c.markReady()
		}
		return nil
	case content == ContentJSON && (resp.StatusCode == http.StatusOK || isError(body)):
		return c.deliverBody(resp, body, msg, deliver)
	case resp.StatusCode == http.StatusNotFound && session != "":
		return ErrSessionLost
	case resp.StatusCode/100 == 2:
		return fmt.Errorf("%w: HTTP status %d, content type %.64q", ErrNoAnswer, resp.StatusCode, content)
	}
	return statusError(resp)
}

// readBody reads at most limit+1 bytes, in one piece where the length is known.
func readBody(resp *http.Response, limit int) ([]byte, error) {
	var body bytes.Buffer
	if n := resp.ContentLength; n > 0 && n <= int64(limit) {
		body.Grow(int(n) + bytes.MinRead)
	}
	_, err := body.ReadFrom(io.LimitReader(resp.Body, int64(limit)+1))
	return body.Bytes(), err
}

// deliverBody delivers a JSON answer. An error answer without our id belongs to our request: nothing
// else was asked on this connection.
func (c *HTTPClient) deliverBody(resp *http.Response, body []byte, msg outgoing, deliver func([]byte)) error {
	if e := errorOf(body); e != nil && msg.isCall() {
		if resp.StatusCode == http.StatusNotFound && e.Code != CodeMethodNotFound {
			if session, _ := c.state(); session != "" {
				return ErrSessionLost
			}
		}
		if !answers(body, msg.id) {
			body = NewErrorAnswer(msg.id, e)
		}
		deliver(body)
		return nil
	}
	c.learn(body, msg)
	answered := false
	deliver2 := func(raw []byte) {
		answered = answered || answers(raw, msg.id)
		deliver(raw)
	}
	if first := bytes.TrimLeft(body, " \t\r\n"); len(first) > 0 && first[0] == '[' {
		for entry := range jsonx.Elements(body) {
			deliver2(entry)
		}
	} else {
		deliver2(body)
	}
	if !answered && msg.isCall() {
		return ErrNoAnswer
	}
	return nil
}

// answers tells whether raw is the answer to the request with that id. It may be ungrammatical.
func answers(raw []byte, id jsonx.Value) bool {
	got := inspect(raw)
	return got.method == "" && len(got.id) > 0 && IDKey(got.id) == IDKey(id)
}

// errorOf decodes an error answer, nil if body is none.
func errorOf(body []byte) *RPCError {
	if !isError(body) {
		return nil
	}
	if msg, err := Parse(body, Limits{}); err == nil {
		return msg.RPCError()
	}
	return nil
}

func isError(body []byte) bool {
	v, ok := jsonx.Lookup(body, "error")
	return ok && len(v) > 0 && v[0] == '{'
}

// statusError describes an answer without JSON-RPC.
func statusError(resp *http.Response) error {
	e := &StatusError{Status: resp.StatusCode}
	if s, err := strconv.ParseUint(resp.Header.Get("Retry-After"), 10, 31); err == nil {
		e.RetryAfter = time.Duration(s) * time.Second
	}
	return e
}
