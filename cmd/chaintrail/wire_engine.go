package main

import (
	"context"
	"log/slog"
	"os"

	"github.com/chaintrail/chaintrail/internal/engine"
	"github.com/chaintrail/chaintrail/internal/lifecycle"
)

// findStore sets n.dsn: the configured ClickHouse, else an engine that runs on this data directory,
// else, if own is true, an engine of our own as a child process.
func (n *node) findStore(ctx context.Context, own bool) error {
	switch {
	case n.cfg.ClickHouse.Off:
		return nil
	case n.cfg.ClickHouse.DSN != "":
		n.dsn = n.cfg.ClickHouse.DSN
		return nil
	}
	info, err := findRuntime(n.cfg, servesEngine, "up", "consume", "engine")
	if err != nil {
		return err
	}
	if info != nil {
		n.dsn = info.EngineDSN
		return nil
	}
	if !own {
		return nil
	}
	return n.startEngine(ctx)
}

func (n *node) startEngine(ctx context.Context) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	// A missing library is found here, before a child is started, so that the way out is told at once.
	library, err := engine.FindLibrary(n.cfg.ClickHouse.Library, n.cfg.Data, os.Getenv)
	if err != nil {
		return withHint(err, engine.Hint(err))
	}
	level := n.cfg.Log.Level
	if level == "info" {
		level = "warn" // that it is ready, this process says
	}
	command := []string{self, "engine", "--child", "--data", n.cfg.Data, "--library", library, "--log-level", level}
	if n.app.configFile != "" {
		command = append(command, "--config", n.app.configFile)
	}
	supervisor, err := engine.NewSupervisor(engine.SupervisorConfig{
		Command: command,
		Log:     n.log,
	})
	if err != nil {
		return err
	}
	run := lifecycle.Background("engine", supervisor.Run)
	return n.group.Start(ctx, lifecycle.Part{
		Name: "engine",
		Start: func(ctx context.Context) error {
			dsn, err := supervisor.Start(ctx)
			if err != nil {
				return withHint(err, engine.Hint(err))
			}
			n.dsn, n.ownEngine = string(dsn), true
			n.log.InfoContext(ctx, "engine is ready", slog.String("version", supervisor.Version()))
			return run.Start(ctx)
		},
		Stop:   run.Stop,
		Failed: run.Failed,
	})
}
