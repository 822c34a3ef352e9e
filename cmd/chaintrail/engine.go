package main

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/url"
	"os"

	"github.com/spf13/cobra"

	"github.com/chaintrail/chaintrail/cmd/chaintrail/config"
	"github.com/chaintrail/chaintrail/internal/engine"
	"github.com/chaintrail/chaintrail/internal/keyfile"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

func newEngineCmd(a *app) *cobra.Command {
	var listen, library string
	var child bool
	cmd := &cobra.Command{
		Use:   "engine",
		Short: "Run the embedded ClickHouse engine as its own process",
		Long: "Runs the ClickHouse engine on <data>/engine behind ClickHouse's HTTP interface, on loopback.\n" +
			"Every client needs the token of <data>/keys/engine.key. chaintrail up starts one by itself.",
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := a.load()
			if err != nil {
				return err
			}
			if library == "" {
				library = cfg.ClickHouse.Library
			}
			if child {
				return engineChild(cmd.Context(), a, cfg, library)
			}
			return engineAlone(cmd.Context(), a, cfg, library, listen)
		},
	}
	cmd.Flags().StringVar(&listen, "listen", "127.0.0.1:0", "loopback address of the HTTP interface")
	cmd.Flags().StringVar(&library, "library", "", "path of libchdb (default: what make engine fetched; $"+engine.EnvLibrary+")")
	cmd.Flags().BoolVar(&child, "child", false, "serve a parent process: socket and token inherited, ends with standard input")
	_ = cmd.Flags().MarkHidden("child")
	return cmd
}

// engineChild serves the process that started it.
func engineChild(ctx context.Context, a *app, cfg config.Config, library string) error {
	serve := engine.ServeConfig{DataDir: cfg.Dir("engine"), Stdin: a.in, Ready: a.out, Log: a.logger(cfg)}
	if err := serve.FromEnv(os.Getenv); err != nil {
		return err
	}
	return runEngine(ctx, cfg, library, serve)
}

// engineAlone serves whoever has the token of the data directory.
func engineAlone(ctx context.Context, a *app, cfg config.Config, library, listen string) error {
	log := a.logger(cfg)
	token, err := engineToken(cfg)
	if err != nil {
		return err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", listen)
	if err != nil {
		return fmt.Errorf("listen on %s: %w", listen, err)
	}
	if host, ok := listener.Addr().(*net.TCPAddr); ok && !host.IP.IsLoopback() {
		return errors.Join(usage(fmt.Errorf("--listen %s is not a loopback address: the engine has no users and no TLS", listen)), listener.Close())
	}
	dsn := engineDSN(listener.Addr().String(), token)
	ready := &readyFile{cfg: cfg, info: runtimeInfo{EngineDSN: dsn}, log: log}
	defer ready.remove()
	return runEngine(ctx, cfg, library, engine.ServeConfig{DataDir: cfg.Dir("engine"), Token: token, Listener: listener, Ready: ready, Log: log})
}

func runEngine(ctx context.Context, cfg config.Config, library string, serve engine.ServeConfig) error {
	var err error
	if serve.Library, err = engine.FindLibrary(library, cfg.Data, os.Getenv); err != nil {
		return withHint(err, engine.Hint(err))
	}
	if serve.MaxMemory = int64(cfg.ClickHouse.MaxMemory); serve.MaxMemory == 0 {
		serve.MaxMemory = engineMemory()
	}
	err = engine.Serve(ctx, serve)
	return withHint(err, engine.Hint(err))
}

// engineMemory leaves most of the machine to others: the engine's own default would take nine tenths of it.
func engineMemory() int64 {
	const most, least = 4 << 30, 512 << 20
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return most // the embedded engine is for Linux
	}
	var kib int64
	if _, err := fmt.Fscanf(bytes.NewReader(text), "MemTotal: %d kB", &kib); err != nil {
		return most
	}
	return min(most, max(least, kib<<10/3))
}

func engineToken(cfg config.Config) (string, error) {
	key, err := keyfile.LoadOrCreate(cfg.Dir("keys", "engine.key"), 24)
	return hex.EncodeToString(key), err
}

func engineDSN(address, token string) string {
	u := url.URL{Scheme: "http", User: url.UserPassword("chaintrail", token), Host: address, Path: "/default"}
	return u.String()
}

// readyFile publishes the runtime file when the engine says that it answers.
type readyFile struct {
	cfg    config.Config
	info   runtimeInfo
	log    *slog.Logger
	buf    bytes.Buffer
	cancel func()
}

var _ io.Writer = (*readyFile)(nil)

// Write takes the engine's one ready line.
func (r *readyFile) Write(p []byte) (int, error) {
	r.buf.Write(p)
	if !bytes.HasSuffix(r.buf.Bytes(), []byte("\n")) {
		return len(p), nil
	}
	var ready engine.Ready
	if err := jsonx.Unmarshal(bytes.TrimSpace(r.buf.Bytes()), &ready); err != nil {
		return 0, err
	}
	remove, err := publishRuntime(context.Background(), r.cfg, "engine", r.info)
	if err != nil {
		return 0, err
	}
	r.cancel = remove
	r.log.Info("engine is ready", slog.String("url", ready.URL), slog.String("version", ready.Version))
	return len(p), nil
}

func (r *readyFile) remove() {
	if r.cancel != nil {
		r.cancel()
	}
}
