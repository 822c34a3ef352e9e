package gateway

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"

	"github.com/chaintrail/chaintrail/chain/wire"
	"github.com/chaintrail/chaintrail/schemas"
)

type discard struct{}

func (discard) Record(context.Context, *schemas.Record) error { return nil }

func benchCall() []byte {
	return []byte(`{"jsonrpc":"2.0","id":17,"method":"tools/call","params":{"name":"echo","arguments":{"text":"` + strings.Repeat("x", 2000) + `"},"_meta":{"progressToken":3}}}`)
}

// BenchmarkExchange is what the gateway adds to a call besides the transport and the journal: two
// events of 2 KB built, no interceptor.
func BenchmarkExchange(b *testing.B) {
	g, err := New(Options{Recorder: discard{}, Backends: []Backend{{Name: "b", URL: "http://127.0.0.1:1"}}})
	if err != nil {
		b.Fatal(err)
	}
	l := g.table.Load().lanes["b"]
	s := l.session("session")
	request, answer := benchCall(), []byte(`{"jsonrpc":"2.0","id":17,"result":{"content":[{"type":"text","text":"`+strings.Repeat("x", 2000)+`"}]}}`)
	b.ReportAllocs()
	for b.Loop() {
		msg, err := wire.Parse(request, wire.Limits{})
		if err != nil {
			b.Fatal(err)
		}
		x, _ := l.begin(b.Context(), arrival{session: s, scope: true, msg: msg, transport: "http"})
		if _, _, ok := x.admit(b.Context()); !ok {
			b.Fatal("not admitted")
		}
		back, err := wire.Parse(answer, wire.Limits{Lenient: true})
		if err != nil {
			b.Fatal(err)
		}
		if a := x.settle(b.Context(), back); a.raw == nil {
			b.Fatal("not answered")
		}
	}
}

// BenchmarkHTTP compares a call straight to the server, through a bare reverse proxy and through the
// gateway, on the same transport.
func BenchmarkHTTP(b *testing.B) {
	answer := []byte(`{"jsonrpc":"2.0","id":17,"result":{"content":[{"type":"text","text":"` + strings.Repeat("x", 2000) + `"}]}}`)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(answer)
	}))
	defer server.Close()
	target, err := url.Parse(server.URL)
	if err != nil {
		b.Fatal(err)
	}
	proxy := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }, Transport: newTransport()})
	defer proxy.Close()
	g, err := New(Options{Recorder: discard{}, Backends: []Backend{{Name: "b", URL: server.URL}}})
	if err != nil {
		b.Fatal(err)
	}
	front := httptest.NewServer(g.Handler())
	defer front.Close()
	client := &http.Client{Transport: newTransport()}
	for _, c := range []struct{ name, url string }{{"direct", server.URL}, {"proxy", proxy.URL}, {"gateway", front.URL + "/b/mcp"}} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				req, err := http.NewRequestWithContext(b.Context(), http.MethodPost, c.url, bytes.NewReader(benchCall()))
				if err != nil {
					b.Fatal(err)
				}
				req.Header.Set("Content-Type", "application/json")
				resp, err := client.Do(req)
				if err != nil {
					b.Fatal(err)
				}
				if n, err := io.Copy(io.Discard, resp.Body); err != nil || n != int64(len(answer)) {
					b.Fatal(n, err)
				}
				_ = resp.Body.Close()
			}
		})
	}
}
