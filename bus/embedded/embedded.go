// Package embedded runs a NATS server with JetStream in this process.
//
// Without a listener nothing outside the process can reach it. With one, it listens on a loopback or
// given address and asks for a token, which lies in a file that only the owner can read.
package embedded

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/gofrs/flock"
	"github.com/google/renameio/v2"
	"github.com/nats-io/nats-server/v2/server"
)

// ErrInUse is returned when another process runs a server on the same directory; stop it first.
var ErrInUse = errors.New("the stream directory is in use by another process")

// Config is the server's. User-set.
type Config struct {
	Dir          string        `yaml:"dir"`           // of the streams; made if missing, 0700
	Listen       string        `yaml:"listen"`        // "" for none; "host:port", port 0 for any free one
	TokenFile    string        `yaml:"token_file"`    // needed with Listen: made with a fresh token if missing, 0600
	SyncInterval time.Duration `yaml:"sync_interval"` // how often written messages are synced to the disk
	SyncAlways   bool          `yaml:"sync_always"`   // sync before each acknowledgement: slower, survives a power cut
	MaxStore     int64         `yaml:"max_store"`     // bytes on disk, all streams together
	MaxPayload   int32         `yaml:"max_payload"`   // bytes of one message
}

// DefaultConfig has no listener. A sync each ten seconds bounds what a power cut can take from the
// stream; the journals still hold it.
func DefaultConfig(dir string) Config {
	return Config{Dir: dir, SyncInterval: 10 * time.Second, MaxStore: 16 << 30, MaxPayload: 8 << 20}
}

// Validate names the first setting that cannot work.
func (c Config) Validate() error {
	switch {
	case c.Dir == "":
		return errors.New("nats.embedded.dir is empty")
	case c.Listen != "" && c.TokenFile == "":
		return errors.New("nats.embedded.token_file is empty: a server that listens needs a token")
	case c.SyncInterval <= 0:
		return fmt.Errorf("nats.embedded.sync_interval is %v: must be positive", c.SyncInterval)
	case c.MaxStore < 64<<20:
		return fmt.Errorf("nats.embedded.max_store is %d: at least %d", c.MaxStore, 64<<20)
	case c.MaxPayload < 1<<20 || c.MaxPayload > 64<<20:
		return fmt.Errorf("nats.embedded.max_payload is %d: %d to %d", c.MaxPayload, 1<<20, 64<<20)
	}
	return nil
}

// Server is a running server. Its methods may be called concurrently.
type Server struct {
	ns    *server.Server
	lock  *flock.Flock
	token string
}

// Start starts the server and returns when it answers. Call Shutdown at the end.
func Start(ctx context.Context, cfg Config, log *slog.Logger) (*Server, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("stream directory: %w", err)
	}
	// The server itself does not guard its directory; two of them destroy it.
	lock := flock.New(filepath.Join(cfg.Dir, "lock"))
	switch ok, err := lock.TryLock(); {
	case err != nil:
		return nil, fmt.Errorf("lock the stream directory: %w", err)
	case !ok:
		return nil, fmt.Errorf("%w: %s", ErrInUse, cfg.Dir)
	}
	s, err := start(ctx, cfg, log)
	if err != nil {
		return nil, errors.Join(err, lock.Unlock())
	}
	s.lock = lock
	return s, nil
}

func start(ctx context.Context, cfg Config, log *slog.Logger) (*Server, error) {
	options, err := cfg.options()
	if err != nil {
		return nil, err
	}
	ns, err := server.NewServer(options)
	if err != nil {
		return nil, fmt.Errorf("nats server: %w", err)
	}
	fatal := make(chan string, 1)
	ns.SetLoggerV2(logger{log, fatal}, false, false, false)
	ns.Start()
	for !ns.ReadyForConnections(20 * time.Millisecond) {
		select {
		case text := <-fatal:
			err = fmt.Errorf("nats server: %s", text)
		case <-ctx.Done():
			err = fmt.Errorf("nats server: not ready: %w", context.Cause(ctx))
		default:
			continue
		}
		ns.Shutdown()
		ns.WaitForShutdown()
		return nil, err
	}
	return &Server{ns: ns, token: options.Authorization}, nil
}

func (c Config) options() (*server.Options, error) {
	o := &server.Options{
		ServerName: "chaintrail", DontListen: true, Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true,
		JetStream: true, StoreDir: c.Dir, JetStreamMaxStore: c.MaxStore, JetStreamMaxMemory: 64 << 20,
		SyncInterval: c.SyncInterval, SyncAlways: c.SyncAlways,
		MaxPayload: c.MaxPayload, MaxPending: 256 << 20, WriteDeadline: 30 * time.Second,
		DisableJetStreamBanner: true, NoSystemAccount: false,
	}
	o.JetStreamLimits.MaxBatchInflightPerStream = 1000 // one in flight per writer and stream
	o.JetStreamLimits.MaxBatchInflightTotal = 4000
	if c.Listen == "" {
		return o, nil
	}
	addr, err := net.ResolveTCPAddr("tcp", c.Listen)
	if err != nil {
		return nil, fmt.Errorf("nats.embedded.listen %q: %w", c.Listen, err)
	}
	if addr.IP == nil {
		addr.IP = net.IPv4(127, 0, 0, 1)
	}
	o.DontListen, o.Host = false, addr.IP.String()
	if addr.Port != 0 {
		o.Port = addr.Port
	}
	o.Authorization, err = token(c.TokenFile)
	return o, err
}

// token reads the token, or makes one.
func token(path string) (string, error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		fresh := rand.Text() + rand.Text()
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return "", fmt.Errorf("nats.embedded.token_file: %w", err)
		}
		if err := renameio.WriteFile(path, []byte(fresh+"\n"), 0o600); err != nil {
			return "", fmt.Errorf("nats.embedded.token_file: %w", err)
		}
		return fresh, nil
	case err != nil:
		return "", fmt.Errorf("nats.embedded.token_file: %w", err)
	case info.Mode().Perm()&0o077 != 0:
		return "", fmt.Errorf("nats.embedded.token_file: %s can be read by others (mode %v): chmod 600", path, info.Mode().Perm())
	}
	b, err := os.ReadFile(path) //nolint:gosec // the operator names the file
	if err != nil {
		return "", fmt.Errorf("nats.embedded.token_file: %w", err)
	}
	t := strings.TrimSpace(string(b))
	if len(t) < 16 {
		return "", fmt.Errorf("nats.embedded.token_file: %s holds fewer than 16 characters", path)
	}
	return t, nil
}

// InProcessConn returns a connection that needs no network; it makes Server a nats.InProcessConnProvider.
// The token, if any, is asked for on these connections too.
func (s *Server) InProcessConn() (net.Conn, error) { return s.ns.InProcessConn() }

// URL is where the server listens, "" if it does not.
func (s *Server) URL() string {
	if addr, ok := s.ns.Addr().(*net.TCPAddr); ok && addr != nil {
		return "nats://" + addr.String()
	}
	return ""
}

// Token is what connections must present, "" if nothing.
func (s *Server) Token() string { return s.token }

// Run waits for the end of ctx and shuts the server down.
func (s *Server) Run(ctx context.Context) error {
	<-ctx.Done()
	return s.Shutdown()
}

// Shutdown ends all connections, writes what is pending and returns when the server is gone.
func (s *Server) Shutdown() error {
	s.ns.Shutdown()
	s.ns.WaitForShutdown()
	if err := s.lock.Unlock(); err != nil {
		return fmt.Errorf("unlock the stream directory: %w", err)
	}
	return nil
}

// logger hands the server's own messages on; its notices are of no interest to an operator.
type logger struct {
	log   *slog.Logger
	fatal chan<- string // takes the first of what would end a server of its own
}

func (l logger) Noticef(format string, v ...any) { l.say(slog.LevelDebug, format, v) }
func (l logger) Debugf(format string, v ...any)  { l.say(slog.LevelDebug, format, v) }
func (l logger) Tracef(format string, v ...any)  { l.say(slog.LevelDebug, format, v) }
func (l logger) Warnf(format string, v ...any)   { l.say(slog.LevelWarn, format, v) }
func (l logger) Errorf(format string, v ...any)  { l.say(slog.LevelError, format, v) }

func (l logger) Fatalf(format string, v ...any) {
	l.say(slog.LevelError, format, v)
	select {
	case l.fatal <- fmt.Sprintf(format, v...):
	default:
	}
}

func (l logger) say(level slog.Level, format string, v []any) {
	if l.log.Enabled(context.Background(), level) {
		l.log.LogAttrs(context.Background(), level, "nats server says", slog.String("text", fmt.Sprintf(format, v...)))
	}
}
