package interop_test

import (
	"io"
	"net"
	"net/url"
	"strings"
	"testing"

	"github.com/chaintrail/chaintrail/chain/wire"
)

// TestHalfClosed: a client that closes its side in the middle of a message gets an error and leaves an
// event; one that closes it behind a request still gets the answer. The neighbour goes on.
func TestHalfClosed(t *testing.T) {
	t.Parallel()
	for _, w := range ways() {
		t.Run(w.String(), func(t *testing.T) {
			t.Parallel()
			p := newPeer(t, func(msg *wire.Message) reply { return goodAnswer(string(msg.ID)) })
			o := newWorld(t, w, p.backend(t, w.back), nil)
			me, neighbour := o.newClient(t, "me"), o.newClient(t, "neighbour")
			if w.front == overHTTP {
				got := halfPost(t, o.url, me.session)
				if !strings.HasPrefix(got, "HTTP/1.1 400") || !strings.Contains(got, `"error":{"code":-32700`) {
					t.Errorf("got %s", got)
				}
				o.ledger.waitOutcome(t, "other error malformed")
				checkGood(t, me, "after")
			} else {
				me.send(t, []byte(goodCall))
				if err := me.in.Close(); err != nil {
					t.Fatal(err)
				}
				if got, want := string(me.next(t)), string(goodAnswer(`"good"`).lines[0]); got != want {
					t.Errorf("got %s, want %s", got, want)
				}
				o.ledger.waitOutcome(t, "tools/call allowed ")
			}
			checkGood(t, neighbour, "neighbour")
		})
	}
}

// halfPost sends half a body, closes its side, and returns what comes back.
func halfPost(t *testing.T, to, session string) string {
	t.Helper()
	u, err := url.Parse(to)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("tcp", u.Host)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_, err = io.WriteString(conn, "POST "+u.Path+" HTTP/1.1\r\nHost: "+u.Host+"\r\nContent-Type: application/json\r\n"+
		wire.HeaderSessionID+": "+session+"\r\nContent-Length: 1000\r\n\r\n"+goodCall)
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(conn)
	if err != nil {
		t.Fatal(err)
	}
	return string(got)
}
