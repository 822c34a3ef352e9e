package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/chaintrail/chaintrail/bench/harness"
	"github.com/chaintrail/chaintrail/internal/engine"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

// rolePrefix begins the first argument of this program's child processes.
const rolePrefix = "role-"

const (
	roleBackend = rolePrefix + "backend" // ADDRESS
	roleProxy   = rolePrefix + "proxy"   // ADDRESS BACKEND
	roleStack   = rolePrefix + "stack"   // ADDRESS BACKEND DIR CONTROL
	roleEngine  = rolePrefix + "engine"  // DIR LIBRARY
	roleLean    = rolePrefix + "lean"    // CONTROL VALIDATORS MUTATORS
	roleSDK     = rolePrefix + "sdk"     // CONTROL VALIDATORS MUTATORS
)

func serveRole(role string, args []string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	arg := func(i int) string {
		if i < len(args) {
			return args[i]
		}
		return ""
	}
	switch role {
	case roleBackend:
		return serveHTTP(ctx, arg(0), http.HandlerFunc(serveMCP))
	case roleProxy:
		target, err := url.Parse(arg(1))
		if err != nil {
			return err
		}
		proxy := &httputil.ReverseProxy{Transport: newTransport(), Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }}
		return serveHTTP(ctx, arg(0), proxy)
	case roleStack:
		return serveStack(ctx, arg(0), arg(1), arg(2), arg(3) == "true")
	case roleEngine:
		return serveEngine(ctx, arg(0), arg(1))
	case roleLean, roleSDK:
		return serveInterceptors(ctx, role == roleSDK, arg)
	}
	return errors.New("no such role")
}

// newTransport is the one of every side: measuring client, reverse proxy and gateway.
func newTransport() *http.Transport {
	return &http.Transport{
		MaxIdleConnsPerHost: 64, IdleConnTimeout: 90 * time.Second, DisableCompression: true,
		WriteBufferSize: 16 << 10, ReadBufferSize: 16 << 10,
	}
}

// serveMCP is a backend that costs next to nothing: a result of 2 KB for every request with an id, or
// one of as many bytes as the argument "want" says.
func serveMCP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	id, found := jsonx.Lookup(body, "id")
	if !found {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	size := payloadBytes
	params, _ := jsonx.Lookup(body, "params")
	arguments, _ := jsonx.Lookup(params, "arguments")
	if want, found := jsonx.Lookup(arguments, "want"); found {
		if size, err = strconv.Atoi(string(want)); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
	}
	answer := append(append([]byte(`{"jsonrpc":"2.0","id":`), id...), `,"result":`...)
	answer = append(append(answer, callResult(size)...), '}')
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(answer)))
	_, _ = io.Copy(w, bytes.NewReader(answer))
}

func serveHTTP(ctx context.Context, address string, handler http.Handler) error {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

func serveEngine(ctx context.Context, dir, library string) error {
	cfg := engine.ServeConfig{
		DataDir: dir, Library: library, Stdin: os.Stdin, Ready: os.Stdout,
		Log: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
	}
	if err := cfg.FromEnv(os.Getenv); err != nil {
		return err
	}
	return engine.Serve(ctx, cfg)
}

// startRole starts this program as a server on a free address and waits until it listens.
func (s *settings) startRole(ctx context.Context, role string, args ...string) (p *harness.Proc, url string, err error) {
	address, err := harness.FreeAddress()
	if err != nil {
		return nil, "", err
	}
	p, err = harness.Start(harness.Spec{Name: role, Argv: append([]string{s.self, role, address}, args...), LogDir: s.dir})
	if err != nil {
		return nil, "", err
	}
	if err := s.waitListen(ctx, p, address); err != nil {
		return nil, "", err
	}
	return p, "http://" + address, nil
}

// waitListen waits until the process listens; if it does not, it is stopped, and the error has its log.
func (s *settings) waitListen(ctx context.Context, p *harness.Proc, address string) error {
	err := harness.WaitFor(ctx, p.Name+" listens", time.Minute, func() bool { return ended(p) || harness.Dial(address) })
	if err == nil && ended(p) {
		err = errors.New(p.Name + " has ended")
	}
	if err == nil {
		return nil
	}
	log, _ := os.ReadFile(filepath.Join(s.dir, p.Name+".log"))
	return errors.Join(fmt.Errorf("%w; its log: %s", err, log), p.Stop(stopLimit))
}

const stopLimit = 30 * time.Second

func ended(p *harness.Proc) bool {
	select {
	case <-p.Done():
		return true
	default:
		return false
	}
}
