// Command speed measures what chaintrail costs, and compares it with what it may cost.
//
// Each part runs real processes: an MCP backend, a bare reverse proxy, chaintrail with all its
// consumers, interceptor servers, the ClickHouse engine. What is compared is measured in turns within
// one run, so that other load on the machine meets all sides alike. With -control a millisecond is
// added to the path on purpose, and the verdicts on it must turn red.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// settings are what every part of the run needs to know.
type settings struct {
	bin     string // chaintrail
	self    string // this program, for its child processes
	dir     string // temporary folder
	control bool
	rounds  int
	events  int
	log     *slog.Logger
	talk    io.Writer
}

// part is one group of rows.
type part struct {
	name    string
	measure func(ctx context.Context, s settings) ([]row, error)
}

func parts() []part {
	return []part{
		{"gateway", measureGateway},
		{"journal", measureJournal},
		{"interceptor", measureInterceptor},
		{"stream", measureStream},
		{"size", measureSize},
	}
}

func main() {
	if len(os.Args) > 1 && strings.HasPrefix(os.Args[1], rolePrefix) {
		if err := serveRole(os.Args[1], os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, os.Args[1], err)
			os.Exit(1)
		}
		return
	}
	var s settings
	var only, output string
	var strict bool
	flag.StringVar(&s.bin, "bin", "bin/chaintrail", "chaintrail binary under test")
	flag.StringVar(&only, "only", "", "parts to measure, separated by commas: gateway, journal, interceptor, stream, size")
	flag.StringVar(&output, "o", "table", "table or md")
	flag.BoolVar(&strict, "strict", false, "exit with 1 when a bound is missed")
	flag.BoolVar(&s.control, "control", false, "negative control: add a millisecond to the path; gateway and interceptor must miss their bounds")
	flag.IntVar(&s.rounds, "rounds", 6000, "calls on each side of a comparison")
	flag.IntVar(&s.events, "events", 120_000, "interceptions in the stream to ClickHouse")
	verbose := flag.Bool("v", false, "log what the parts say")
	flag.Parse()
	s.log, s.talk = slog.New(slog.DiscardHandler), os.Stderr
	if *verbose {
		s.log = slog.New(slog.NewTextHandler(os.Stderr, nil))
	}
	rows, err := run(context.Background(), s, only)
	show := printTable
	if output == "md" {
		show = printMarkdown
	}
	show(os.Stdout, rows)
	switch {
	case err != nil:
		fmt.Fprintln(os.Stderr, "speed:", err)
		os.Exit(1)
	case strict && slices.ContainsFunc(rows, func(r row) bool { return r.verdict == missed }):
		os.Exit(1)
	}
}

func run(ctx context.Context, s settings, only string) (rows []row, err error) {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	if s.self, err = os.Executable(); err != nil {
		return nil, err
	}
	if s.bin, err = filepath.Abs(s.bin); err != nil {
		return nil, err
	}
	if s.dir, err = os.MkdirTemp("", "chaintrail-speed-"); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(s.dir)) }()
	for _, p := range parts() {
		if only != "" && !slices.Contains(strings.Split(only, ","), p.name) {
			continue
		}
		start := time.Now()
		fmt.Fprintf(s.talk, "measuring: %s …\n", p.name)
		inner := s
		inner.dir = filepath.Join(s.dir, p.name)
		if err := os.Mkdir(inner.dir, 0o700); err != nil {
			return rows, err
		}
		measured, err := p.measure(ctx, inner)
		rows = append(rows, measured...)
		if err != nil {
			return rows, fmt.Errorf("%s: %w", p.name, err)
		}
		fmt.Fprintf(s.talk, "measuring: %s took %s\n", p.name, time.Since(start).Round(100*time.Millisecond))
	}
	return rows, nil
}
