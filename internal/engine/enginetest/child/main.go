// Command child is the engine process of package enginetest.
package main

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/chaintrail/chaintrail/internal/engine"
)

func main() {
	data := flag.String("data", "", "data directory")
	library := flag.String("library", "", "path of libchdb.so")
	remove := flag.Bool("remove", false, "remove the data directory at the end")
	flag.Parse()
	if err := serve(*data, *library); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if *remove {
		_ = os.RemoveAll(*data)
	}
}

func serve(data, library string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	cfg := engine.ServeConfig{
		DataDir: data, Library: library, Stdin: os.Stdin, Ready: os.Stdout,
		Log: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
	}
	if err := cfg.FromEnv(os.Getenv); err != nil {
		return err
	}
	return engine.Serve(ctx, cfg)
}
