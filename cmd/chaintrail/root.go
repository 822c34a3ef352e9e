package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"

	"github.com/mattn/go-isatty"
	"github.com/spf13/cobra"

	"github.com/chaintrail/chaintrail/audit/redact"
	"github.com/chaintrail/chaintrail/cmd/chaintrail/config"
	"github.com/chaintrail/chaintrail/internal/detect"
)

// streams are where a command reads and writes: data goes to out, talk to err.
type streams struct {
	in  io.Reader
	out io.Writer
	err io.Writer
}

// app is what every command shares.
type app struct {
	streams
	configFile   string
	dataDir      string
	logLevel     string
	output       string
	interceptors []string         // --interceptor
	redactor     *detect.Detector // for logs and dead letters
}

func newRootCmd(s streams) *cobra.Command {
	redactor, err := detect.New(detect.Config{})
	if err != nil {
		panic("the default detectors are broken: " + err.Error())
	}
	a := &app{streams: s, redactor: redactor}
	root := &cobra.Command{
		Use:           "chaintrail",
		Short:         "The audit trail for MCP interceptor chains",
		Long:          "chaintrail stands between MCP clients and MCP servers, runs SEP-2624 interceptors,\nand keeps a durable, provable record of everything that happens there.",
		SilenceErrors: true,
		SilenceUsage:  true,
		Version:       version,
	}
	root.SetIn(s.in)
	root.SetOut(s.out)
	root.SetErr(s.err)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usage(withHint(err, cmd.CommandPath()+" --help"))
	})
	flags := root.PersistentFlags()
	flags.StringVarP(&a.configFile, "config", "c", os.Getenv("CHAINTRAIL_CONFIG"), "configuration file (default ./"+config.FileName+" if there is one; $CHAINTRAIL_CONFIG)")
	flags.StringVar(&a.dataDir, "data", os.Getenv("CHAINTRAIL_DATA"), "data directory (default .chaintrail; $CHAINTRAIL_DATA)")
	flags.StringVar(&a.logLevel, "log-level", os.Getenv("CHAINTRAIL_LOG_LEVEL"), "debug, info, warn or error ($CHAINTRAIL_LOG_LEVEL)")
	root.AddCommand(
		newUpCmd(a), newGatewayCmd(a), newBusCmd(a), newConsumeCmd(a), newEngineCmd(a),
		newTailCmd(a), newSearchCmd(a), newShowCmd(a), newStatsCmd(a), newStatusCmd(a), newVerifyCmd(a), newProveCmd(a),
		newInterceptorsCmd(a), newCallCmd(a), newDemoServerCmd(a), newKeysCmd(a), newMigrateCmd(a), newDoctorCmd(a), newVersionCmd(a),
	)
	return root
}

// load reads the configuration and lays flags over it.
func (a *app) load() (config.Config, error) {
	cfg, err := config.Load(a.configFile)
	if err != nil {
		return config.Config{}, usage(err)
	}
	if err := a.addFlagged(&cfg); err != nil {
		return config.Config{}, err
	}
	if a.dataDir != "" {
		cfg.Data = a.dataDir
	}
	if a.logLevel != "" {
		cfg.Log.Level = a.logLevel
	}
	var level slog.Level
	if err := level.UnmarshalText([]byte(cfg.Log.Level)); err != nil {
		return config.Config{}, usage(fmt.Errorf("--log-level %q is not one of debug, info, warn, error", cfg.Log.Level))
	}
	return cfg, nil
}

// logger writes to err, with secrets taken out of every value.
func (a *app) logger(cfg config.Config) *slog.Logger {
	var level slog.Level
	_ = level.UnmarshalText([]byte(cfg.Log.Level)) // load has checked it
	options := &slog.HandlerOptions{Level: level}
	if cfg.Log.Format == "json" || cfg.Log.Format == "auto" && !isTerminal(a.err) {
		return slog.New(redact.NewLogHandler(slog.NewJSONHandler(a.err, options), a.redactor))
	}
	return slog.New(redact.NewLogHandler(slog.NewTextHandler(a.err, options), a.redactor))
}

func isTerminal(w any) bool {
	f, ok := w.(*os.File)
	return ok && isatty.IsTerminal(f.Fd())
}

// outputFlag adds -o to a command that prints data.
func (a *app) outputFlag(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&a.output, "output", "o", "table", "table, json or yaml")
	cmd.PreRunE = func(*cobra.Command, []string) error {
		switch a.output {
		case "table", "json", "yaml":
			return nil
		}
		return usage(fmt.Errorf("--output %q is not one of table, json, yaml", a.output))
	}
}

func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usage(withHint(fmt.Errorf("%s takes no arguments, got %q", cmd.CommandPath(), strings.Join(args, " ")), cmd.CommandPath()+" --help"))
	}
	return nil
}

// stopped turns the end of the command's own context into success.
func stopped(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}
