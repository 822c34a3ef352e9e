package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/chaintrail/chaintrail/audit/redact"
	"github.com/chaintrail/chaintrail/chain"
	"github.com/chaintrail/chaintrail/chain/gateway"
	"github.com/chaintrail/chaintrail/internal/lifecycle"
	"github.com/chaintrail/chaintrail/schemas/seal"
)

const (
	plainPath   = "/plain/mcp"
	guardedPath = "/guarded/mcp"
	maxRatio    = 2 // of what a bare reverse proxy adds
)

// serveStack serves chaintrail with everything that runs in `chaintrail up`: one backend twice,
// without interceptors and with a validator in this process.
func serveStack(ctx context.Context, address, backend, dir string, control bool) (err error) {
	s := newStack(dir, slog.New(slog.DiscardHandler))
	defer func() { err = errors.Join(err, s.stop()) }() //nolint:contextcheck // the stop outlives ctx
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if err := s.startBus(ctx); err != nil {
		return err
	}
	if err := s.startEngine(ctx, self); err != nil {
		return err
	}
	if _, _, err := s.startWriters(ctx); err != nil {
		return err
	}
	if err := s.startJournal(ctx); err != nil {
		return err
	}
	policy, err := redact.NewRecorder(s.outbox, redact.Policy{}, &redact.RecorderOptions{SnapshotKey: seal.Key{9}})
	if err != nil {
		return err
	}
	validator, err := newServer(control, 1, 0)
	if err != nil {
		return err
	}
	set, err := newPlan(ctx, "inprocess", chain.Local(validator))
	if err != nil {
		return err
	}
	if err := s.group.Start(ctx, lifecycle.Background("chain", set.Run)); err != nil {
		return err
	}
	g, err := gateway.New(gateway.Options{
		Recorder: policy, Key: seal.Key{5}, Tenant: "default", Gateway: "bench", Transport: newTransport(),
		Backends: []gateway.Backend{
			{Name: "plain", URL: backend},
			{Name: "guarded", URL: backend, Plan: func() gateway.Plan { return set.Current() }},
		},
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, g.Close()) }() //nolint:contextcheck // the same
	handler := g.Handler()
	if control {
		handler = delayed(handler)
	}
	return serveHTTP(ctx, address, handler)
}

func delayed(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(controlDelay)
		next.ServeHTTP(w, r)
	})
}

// measureGateway compares four ways to one backend: straight, through a bare reverse proxy, and
// through chaintrail without and with a validator.
func measureGateway(ctx context.Context, s settings) (rows []row, err error) {
	backend, backendURL, err := s.startRole(ctx, roleBackend)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, backend.Stop(stopLimit)) }()
	proxy, proxyURL, err := s.startRole(ctx, roleProxy, backendURL)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, proxy.Stop(stopLimit)) }()
	trail, trailURL, err := s.startRole(ctx, roleStack, backendURL, filepath.Join(s.dir, "data"), strconv.FormatBool(s.control))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, trail.Stop(stopLimit)) }()
	direct, through := httpContender("direct", backendURL), httpContender("bare httputil.ReverseProxy", proxyURL)
	plain, guarded := httpContender("chaintrail, no interceptor", trailURL+plainPath), httpContender("chaintrail, one validator", trailURL+guardedPath)
	if err := inTurns(ctx, s.rounds, 1, []*contender{direct, through, plain, guarded}); err != nil {
		return nil, err
	}
	base := direct.took.p50()
	added := through.took.p50() - base
	rows = []row{
		beside("gateway", "tools/call 2 KB over HTTP, direct: p50", base, "µs"),
		beside("gateway", "a bare httputil.ReverseProxy adds", added, "µs"),
	}
	for _, c := range []*contender{plain, guarded} {
		adds := c.took.p50() - base
		r := atMost("gateway", fmt.Sprintf("%s, adds %s µs: ratio to the proxy", c.name, number(adds)), adds/added, maxRatio, "×")
		r.measured += spread(direct, through, c)
		rows = append(rows, r)
	}
	return rows, nil
}

// spread says how the ratio moved within the run.
func spread(direct, proxy, c *contender) string {
	const n = 10
	d, p, x := direct.took.blocks(n), proxy.took.blocks(n), c.took.blocks(n)
	if d == nil {
		return ""
	}
	ratios := make([]float64, n)
	for i := range ratios {
		ratios[i] = (x[i].p50() - d[i].p50()) / (p[i].p50() - d[i].p50())
	}
	low, high := ratios[0], ratios[0]
	for _, r := range ratios {
		low, high = min(low, r), max(high, r)
	}
	return fmt.Sprintf(" (%s to %s)", number(low), number(high))
}

// httpContender makes a tools/call of 2 KB on a connection that is kept.
func httpContender(name, url string) *contender {
	client := &http.Client{Transport: newTransport()}
	params := callParams(payloadBytes)
	id := 0
	return &contender{name: name, call: func(ctx context.Context) error {
		id++
		return post(ctx, client, url, rpcRequest(id, params), fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"result":`, id), payloadBytes)
	}}
}

// post makes a call and reads the whole answer, which must begin with head and be longer than size.
func post(ctx context.Context, client *http.Client, url string, body, head []byte, size int) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	r.Header.Set("MCP-Protocol-Version", "2025-11-25")
	response, err := client.Do(r)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK || !bytes.HasPrefix(answer, head) || len(answer) < size {
		return fmt.Errorf("status %s, %d bytes: %.200s", response.Status, len(answer), answer)
	}
	return nil
}
