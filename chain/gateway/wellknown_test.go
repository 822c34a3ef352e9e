package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/auth/extauth"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/modelcontextprotocol/go-sdk/oauthex"

	"github.com/chaintrail/chaintrail/chain/wire"
)

// protectedServer is a real server that wants a token of an authorization server beside it.
func protectedServer(t *testing.T, metadataPath string) (endpoint string) {
	t.Helper()
	mux := http.NewServeMux()
	srv := httptest.NewServer(mux)
	issuer := http.NewServeMux()
	as := httptest.NewServer(issuer)
	answer := func(w http.ResponseWriter, v any) {
		w.Header().Set("Content-Type", "application/json")
		raw, err := json.Marshal(v)
		if err != nil {
			t.Error(err)
		}
		_, _ = w.Write(raw)
	}
	issuer.HandleFunc("/.well-known/oauth-authorization-server", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, &oauthex.AuthServerMeta{
			Issuer: as.URL, AuthorizationEndpoint: as.URL + "/authorize", TokenEndpoint: as.URL + "/token",
			ResponseTypesSupported: []string{"code"}, CodeChallengeMethodsSupported: []string{"S256"},
		})
	})
	issuer.HandleFunc("/token", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, map[string]any{"access_token": "let-me-in", "token_type": "Bearer", "expires_in": 3600})
	})
	s := sdkServer(nil)
	verify := func(_ context.Context, token string, _ *http.Request) (*auth.TokenInfo, error) {
		if token != "let-me-in" {
			return nil, auth.ErrInvalidToken
		}
		return &auth.TokenInfo{Expiration: time.Now().Add(time.Hour), UserID: "u"}, nil
	}
	mux.Handle("/deep/mcp", auth.RequireBearerToken(verify, &auth.RequireBearerTokenOptions{ResourceMetadataURL: srv.URL + metadataPath})(
		mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, nil)))
	mux.Handle(metadataPath, auth.ProtectedResourceMetadataHandler(&oauthex.ProtectedResourceMetadata{
		Resource: srv.URL + "/deep/mcp", AuthorizationServers: []string{as.URL},
	}))
	t.Cleanup(func() {
		srv.Close()
		as.Close()
		for ss := range s.Sessions() {
			_ = ss.Close()
		}
	})
	return srv.URL + "/deep/mcp"
}

// TestAuthorization: a real client that is refused finds its authorization server through the gateway
// and comes back with a token, wherever the backend has its metadata.
func TestAuthorization(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"/.well-known/oauth-protected-resource/deep/mcp", "/.well-known/oauth-protected-resource", "/elsewhere"} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			g := serve(t, Options{Backends: []Backend{{Name: "other", Command: []string{"x"}}, {Name: "b", URL: protectedServer(t, path)}}})
			hc := &http.Client{Transport: &http.Transport{}}
			t.Cleanup(hc.CloseIdleConnections)
			h, err := extauth.NewClientCredentialsHandler(&extauth.ClientCredentialsHandlerConfig{
				Credentials: &oauthex.ClientCredentials{ClientID: "c", ClientSecretAuth: &oauthex.ClientSecretAuth{ClientSecret: "s"}},
				HTTPClient:  hc,
			})
			if err != nil {
				t.Fatal(err)
			}
			c := mcp.NewClient(&mcp.Implementation{Name: "tester", Version: "1"}, nil)
			cs, err := c.Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: g.url, HTTPClient: hc, OAuthHandler: h, MaxRetries: -1}, &mcp.ClientSessionOptions{ProtocolVersion: legacy})
			if err != nil {
				t.Fatalf("connect: %v", err)
			}
			t.Cleanup(func() { _ = cs.Close() })
			res, err := cs.CallTool(t.Context(), &mcp.CallToolParams{Name: "echo", Arguments: map[string]any{"text": "in"}})
			if got := textOf(t, res, err); got != "in" {
				t.Errorf("got %q", got)
			}
		})
	}
}

// TestWellKnown: which document of which backend a path stands for, and what is changed of it.
func TestWellKnown(t *testing.T) {
	t.Parallel()
	asked := make(chan string, 16)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r.URL.Path
		if strings.HasSuffix(r.URL.Path, "/missing") || r.URL.Path == "/.well-known/oauth-protected-resource/api/mcp" {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Access-Control-Allow-Origin", "*")
		_, _ = io.WriteString(w, `{"resource":"`+"http://"+r.Host+`/api/mcp", "resource_name":"x"}`)
	}))
	t.Cleanup(srv.Close)
	one := serve(t, Options{Backends: []Backend{{Name: "b", URL: srv.URL + "/api/mcp"}}})
	two := serve(t, Options{Backends: []Backend{{Name: "b", URL: srv.URL + "/api/mcp"}, {Name: "c", Command: []string{"x"}}}})
	const base = "/.well-known/"
	changed := func(path string) string { return `{"resource":"ORIGIN` + path + `", "resource_name":"x"}` }
	untouched := `{"resource":"` + srv.URL + `/api/mcp", "resource_name":"x"}`
	for _, tt := range []struct {
		name   string
		g      *front
		path   string
		status int
		asked  []string
		body   string
	}{
		{"resource", two, base + "oauth-protected-resource/b/mcp", 200, []string{base + "oauth-protected-resource/api/mcp", base + "oauth-protected-resource"}, changed("/b/mcp")},
		{"root of one", one, base + "oauth-protected-resource", 200, []string{base + "oauth-protected-resource"}, changed("")},
		{"root of two", two, base + "oauth-protected-resource", 404, nil, ""},
		{"authorization server", two, base + "oauth-authorization-server/b/mcp", 200, []string{base + "oauth-authorization-server/api/mcp"}, untouched},
		{"appended", two, "/b/mcp" + base + "openid-configuration", 200, []string{"/api/mcp" + base + "openid-configuration"}, untouched},
		{"not there", two, "/b/mcp" + base + "missing", 404, []string{"/api/mcp" + base + "missing"}, ""},
		{"of a command", two, base + "oauth-protected-resource/c/mcp", 404, nil, ""},
		{"unknown backend", two, base + "oauth-protected-resource/x/mcp", 404, nil, ""},
		{"climbing", two, base + "..%2f/b/mcp", 404, nil, ""},
		{"nothing", one, base, 404, nil, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			origin := strings.TrimSuffix(tt.g.url, "/b/mcp")
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, origin+tt.path, nil)
			if err != nil {
				t.Fatal(err)
			}
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			if err != nil || resp.StatusCode != tt.status {
				t.Errorf("status %d, want %d: %s %v", resp.StatusCode, tt.status, body, err)
			}
			if want := strings.ReplaceAll(tt.body, "ORIGIN", origin); want != "" && (string(body) != want || resp.Header.Get("Access-Control-Allow-Origin") != "*") {
				t.Errorf("got %s, want %s; headers %v", body, want, resp.Header)
			}
			var got []string
			for len(asked) > 0 {
				got = append(got, <-asked)
			}
			if diff := cmp.Diff(tt.asked, got); diff != "" {
				t.Errorf("the backend was asked for (-want +got):\n%s", diff)
			}
		})
	}
}

// TestChallenge: only the metadata of the backend's own origin is put in the gateway's place.
func TestChallenge(t *testing.T) {
	t.Parallel()
	var backend string
	challenge := func() []string {
		return []string{
			`Bearer realm="a, b", resource_metadata="` + backend + `/x/meta", scope="s"`,
			`Bearer resource_metadata=https://elsewhere.example/meta`, `Basic realm="resource_metadata"`,
		}
	}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			w.Header()["Www-Authenticate"] = challenge()
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		_, _ = fmt.Fprintf(w, "%s", r.URL.Path)
	}))
	t.Cleanup(srv.Close)
	backend = srv.URL
	g := serve(t, Options{Backends: httpBackend(srv.URL, nil)})
	status, head, _ := postRaw(t, g.url, []byte(pingText), "X-Forwarded-Proto", "https")
	want := challenge()
	meta := "https" + strings.TrimPrefix(strings.TrimSuffix(g.url, "/b/mcp"), "http") + "/.well-known/oauth-protected-resource/b/mcp"
	want[0] = strings.ReplaceAll(want[0], backend+"/x/meta", meta)
	if diff := cmp.Diff(want, head["Www-Authenticate"]); diff != "" || status != http.StatusUnauthorized {
		t.Errorf("status %d, challenge (-want +got):\n%s", status, diff)
	}
}

// TestComments: what a server sends to keep a connection alive reaches the client at once.
func TestComments(t *testing.T) {
	t.Parallel()
	proceed := make(chan struct{})
	peer := newRawPeer(t, func(w http.ResponseWriter, r *http.Request, _ []byte) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, ": ok\n\n:\n\n")
		_ = http.NewResponseController(w).Flush()
		select {
		case <-proceed:
		case <-r.Context().Done():
		}
		_, _ = io.WriteString(w, "data: {\"jsonrpc\":\"2.0\",\"id\":99,\"result\":{}}\n\n")
	})
	g := serve(t, Options{Backends: httpBackend(peer.url, nil)})
	s := &rawSession{url: g.url, version: wire.Version20251125}
	stream := s.stream(t, pingText, "")
	stream.events.Comments = true
	if a, b := stream.next(t), stream.next(t); !a.Comment || string(a.Data) != "ok" || !b.Comment || len(b.Data) != 0 {
		t.Errorf("got %+v, %+v, want two comments", a, b)
	}
	close(proceed)
	if ev := stream.next(t); string(ev.Data) != `{"jsonrpc":"2.0","id":99,"result":{}}` {
		t.Errorf("got %s", ev.Data)
	}
}
