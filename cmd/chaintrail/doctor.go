package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/chaintrail/chaintrail/bus"
	"github.com/chaintrail/chaintrail/cmd/chaintrail/config"
	"github.com/chaintrail/chaintrail/internal/engine"
	"github.com/chaintrail/chaintrail/schemas"
)

// finding is what doctor saw in one place.
type finding struct {
	Check  string `json:"check"`
	Status string `json:"status"` // ok, warn or fail
	Detail string `json:"detail"`
	Fix    string `json:"fix,omitzero"` // the way out
}

var errFindings = errors.New("something needs attention")

func newDoctorCmd(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check configuration, ports, versions, clock, disk and connections",
		Long:  "Looks at everything that chaintrail needs and says for each finding what to do about it.\nChanges nothing. Exits 1 when a check fails.",
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			findings := a.examine(cmd.Context())
			if err := a.print(findings, func() error { return a.printFindings(findings) }); err != nil {
				return err
			}
			for _, f := range findings {
				if f.Status == "fail" {
					return errFindings
				}
			}
			return nil
		},
	}
	a.outputFlag(cmd)
	return cmd
}

func (a *app) printFindings(findings []finding) error {
	t := newTable(a.out, "CHECK", "STATUS", "DETAIL")
	for _, f := range findings {
		t.row(f.Check, f.Status, f.Detail)
		if f.Fix != "" {
			t.row("", "", "→ "+f.Fix)
		}
	}
	return t.flush()
}

func (a *app) examine(ctx context.Context) []finding {
	cfg, err := a.load()
	if err != nil {
		return []finding{{"config", "fail", err.Error(), "correct the named key, then run chaintrail doctor again"}}
	}
	source := "defaults, no file"
	if a.configFile != "" {
		source = a.configFile
	} else if _, err := os.Stat(config.FileName); err == nil {
		source = config.FileName
	}
	findings := []finding{{Check: "config", Status: "ok", Detail: source}, checkData(cfg), checkKeys(cfg), checkDisk(cfg), checkClock()}
	running, err := findRuntime(cfg, anyProcess, "up", "gateway", "consume", "bus", "engine")
	switch {
	case err != nil:
		findings = append(findings, finding{"running", "fail", err.Error(), "stop chaintrail, remove the named file, start again"})
	case running != nil:
		findings = append(findings, finding{Check: "running", Status: "ok", Detail: fmt.Sprintf("process %d, version %s", running.PID, running.Version)})
	default:
		findings = append(findings, finding{Check: "running", Status: "ok", Detail: "nothing runs on this data directory"}, checkPort("port gateway", cfg.Gateway.Listen))
	}
	findings = append(findings, checkCallers(cfg))
	findings = append(findings, a.checkBus(ctx, cfg), a.checkStore(ctx, cfg))
	for _, b := range cfg.Backends {
		findings = append(findings, checkEndpoint(ctx, "backend "+b.Name, b.URL, b.Command))
	}
	for _, h := range cfg.Interceptors {
		findings = append(findings, checkEndpoint(ctx, "interceptors "+h.Name, h.URL, h.Command))
	}
	return findings
}

func checkData(cfg config.Config) finding {
	f := finding{Check: "data", Status: "ok", Detail: cfg.Data}
	info, err := os.Stat(cfg.Data)
	switch {
	case errors.Is(err, os.ErrNotExist):
		f.Detail += " (will be made)"
		return f
	case err != nil:
		return finding{f.Check, "fail", err.Error(), "choose a data directory that this user can reach"}
	case !info.IsDir():
		return finding{f.Check, "fail", cfg.Data + " is not a directory", "choose another with --data"}
	case info.Mode().Perm()&0o077 != 0:
		return finding{f.Check, "warn", fmt.Sprintf("%s is readable by others (mode %04o)", cfg.Data, info.Mode().Perm()), "chmod 700 " + cfg.Data}
	}
	probe, err := os.CreateTemp(cfg.Data, ".doctor-*")
	if err != nil {
		return finding{f.Check, "fail", err.Error(), "make the data directory writable for this user"}
	}
	_ = errors.Join(probe.Close(), os.Remove(probe.Name()))
	return f
}

// checkKeys finds what would stop the next start.
func checkKeys(cfg config.Config) finding {
	f := finding{Check: "keys", Status: "ok", Detail: "only this user can read them"}
	entries, err := os.ReadDir(cfg.Dir("keys"))
	if errors.Is(err, os.ErrNotExist) {
		f.Detail = "will be made"
		return f
	}
	if err != nil {
		return finding{f.Check, "fail", err.Error(), "make " + cfg.Dir("keys") + " readable for this user"}
	}
	for _, e := range entries {
		info, err := e.Info()
		if err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o077 != 0 {
			path := cfg.Dir("keys", e.Name())
			return finding{f.Check, "fail", fmt.Sprintf("%s is readable by others (mode %04o)", path, info.Mode().Perm()), "chmod 600 " + path}
		}
	}
	return f
}

// checkDisk compares the bounds of journal and streams with what is free.
func checkDisk(cfg config.Config) finding {
	dir := cfg.Data
	for {
		if _, err := os.Stat(dir); err == nil {
			break
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			break
		}
		dir = parent
	}
	free, err := freeBytes(dir)
	if err != nil {
		return finding{"disk", "fail", err.Error(), "check the file system of the data directory"}
	}
	need := int64(cfg.Journal.MaxBytes)
	if cfg.Bus.URL == "" {
		need += 3 * int64(cfg.Bus.MaxBytes) // sealed events, and twice as much for open items
	}
	f := finding{Check: "disk", Status: "ok", Detail: fmt.Sprintf("%s free, journal and streams may take %s", gib(free), gib(need))}
	if free < need {
		f.Status, f.Fix = "warn", "lower journal.max_bytes and bus.max_bytes, or give the data directory more room"
	}
	return f
}

func freeBytes(dir string) (int64, error) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return 0, fmt.Errorf("free space of %s: %w", dir, err)
	}
	return int64(st.Bavail) * int64(st.Bsize), nil //nolint:gosec,unconvert // G115: fits for centuries; the types differ by system
}

func gib(n int64) string { return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30)) }

// checkClock catches a clock that was never set; drift against other machines shows in the store check.
func checkClock() finding {
	now := time.Now()
	if now.Year() < 2026 {
		return finding{"clock", "fail", now.UTC().Format(time.RFC3339) + " lies in the past", "set the clock: event times are evidence"}
	}
	return finding{Check: "clock", Status: "ok", Detail: schemas.At(now).String()}
}

func checkPort(name, address string) finding {
	l, err := net.Listen("tcp", address) //nolint:noctx // closed at once
	if err != nil {
		return finding{name, "fail", err.Error(), "stop what listens there, or choose another address for gateway.listen"}
	}
	_ = l.Close()
	return finding{Check: name, Status: "ok", Detail: address + " is free"}
}

// checkCallers warns when the trail would not say who called although others than this machine can.
func checkCallers(cfg config.Config) finding {
	f := finding{Check: "callers", Status: "ok", Detail: "named by header " + cfg.Gateway.PrincipalFrom}
	if cfg.Gateway.PrincipalFrom != "" {
		return f
	}
	host, _, _ := net.SplitHostPort(cfg.Gateway.Listen) // load has checked it
	if ip := net.ParseIP(host); host == "localhost" || ip != nil && ip.IsLoopback() {
		f.Detail = "anonymous, from this machine only"
		return f
	}
	return finding{
		f.Check, "warn", cfg.Gateway.Listen + " is reachable from outside, and every caller is recorded as anonymous",
		"put an authenticating proxy in front and set gateway.principal_header, or listen on 127.0.0.1",
	}
}

func checkEndpoint(ctx context.Context, name, url string, command []string) finding {
	if len(command) > 0 {
		return checkCommand(name, command[0])
	}
	host := strings.TrimPrefix(strings.TrimPrefix(url, "https://"), "http://")
	host, _, _ = strings.Cut(host, "/")
	if _, _, err := net.SplitHostPort(host); err != nil {
		if strings.HasPrefix(url, "https:") {
			host += ":443"
		} else {
			host += ":80"
		}
	}
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", host)
	if err != nil {
		return finding{name, "fail", err.Error(), "start the server, or correct its url"}
	}
	_ = conn.Close()
	return finding{Check: name, Status: "ok", Detail: url + " accepts connections"}
}

func (a *app) checkBus(ctx context.Context, cfg config.Config) finding {
	if cfg.Bus.URL == "" {
		return finding{Check: "bus", Status: "ok", Detail: "embedded NATS"}
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	nc, err := bus.Connect(bus.Config{URL: cfg.Bus.URL, Name: "chaintrail doctor", TokenFile: cfg.Bus.TokenFile, CredsFile: cfg.Bus.CredsFile}, a.logger(config.Config{Log: config.Log{Level: "error"}}))
	if err != nil {
		return finding{"bus", "fail", err.Error(), "correct bus.url, bus.token_file or bus.credentials"}
	}
	defer nc.Close()
	if _, err := bus.WaitReady(ctx, nc); err != nil {
		return finding{"bus", "fail", err.Error(), "start NATS " + bus.MinServer + " or newer with JetStream at bus.url"}
	}
	return finding{Check: "bus", Status: "ok", Detail: "NATS " + nc.ConnectedServerVersion() + " with JetStream"}
}

func (a *app) checkStore(ctx context.Context, cfg config.Config) finding {
	if cfg.ClickHouse.Off {
		return finding{Check: "store", Status: "ok", Detail: "switched off"}
	}
	if cfg.ClickHouse.DSN == "" {
		path, err := engine.FindLibrary(cfg.ClickHouse.Library, cfg.Data, os.Getenv)
		if err != nil {
			return finding{"store", "fail", err.Error(), engine.Hint(err)}
		}
		return finding{Check: "store", Status: "ok", Detail: "embedded engine, " + filepath.Base(path) + " is there"}
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	detail, err := pingStore(ctx, cfg.ClickHouse.DSN)
	if err != nil {
		return finding{"store", "fail", err.Error(), "start ClickHouse, or correct clickhouse.dsn"}
	}
	return finding{Check: "store", Status: "ok", Detail: detail}
}
