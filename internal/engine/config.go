package engine

import (
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"strconv"
	"time"
)

// Environment variables that carry what must not stand in the arguments of the child process.
const (
	// EnvToken holds the password that every client must send.
	EnvToken = "CHAINTRAIL_ENGINE_TOKEN" //nolint:gosec // the name of a variable, not a credential
	// EnvListenFD holds the number of an inherited file descriptor of a listening socket.
	EnvListenFD = "CHAINTRAIL_ENGINE_LISTEN_FD"
)

// Bounds of the endpoint.
const (
	DefaultMaxStatements = 16
	DefaultMaxWaiting    = 256
	// maxStatement bounds the text of one statement, which is held in memory; the data of an INSERT is not a part of it.
	maxStatement = 16 << 20
	// drainTimeout is how long statements may go on after the end was asked for, before they are killed.
	drainTimeout = 10 * time.Second
	// stallTimeout bounds a client's pause within the data of an INSERT or a result: its statement holds a place.
	stallTimeout = 5 * time.Minute
	// lockTimeout is how long a start waits for the process before it, which ends when its parent does.
	lockTimeout = 5 * time.Second
)

// ServeConfig tells [Serve] what to serve.
type ServeConfig struct {
	DataDir string       // required; created if it is missing, locked while the engine runs
	Library string       // required; path of libchdb, see [FindLibrary]
	Token   string       // required; the password that every client must send
	Stdin   io.Reader    // optional; its end ends Serve, so that the engine never outlives its parent
	Ready   io.Writer    // optional; gets one line of JSON, see [Ready], once requests are answered
	Log     *slog.Logger // optional
	// Listener is optional; the default is a free port of 127.0.0.1. Serve closes it.
	Listener net.Listener
	// MaxStatements bounds the statements that run at once, MaxWaiting those that wait for a place; zero means the
	// default.
	MaxStatements, MaxWaiting int
	// MaxMemory bounds the engine's memory in bytes; statements beyond it fail with code 241. Zero means nine tenths of
	// the machine's.
	MaxMemory int64
	// Settings are engine settings that hold for every statement unless it names others; they come after the
	// endpoint's own (async_insert=0).
	Settings map[string]string
}

// Ready is what the child writes to its parent.
type Ready struct {
	URL     string `json:"url"`
	Version string `json:"version"`
}

// FromEnv fills Token and Listener from the variables that the parent set, where they are not set already. Call it
// once: the file descriptor is taken over.
func (c *ServeConfig) FromEnv(getenv func(string) string) error {
	if c.Token == "" {
		c.Token = getenv(EnvToken)
	}
	value := getenv(EnvListenFD)
	if value == "" || c.Listener != nil {
		return nil
	}
	fd, err := strconv.ParseUint(value, 10, 16)
	if err != nil || fd < 3 {
		return fmt.Errorf("%s=%q is no inherited file descriptor", EnvListenFD, value)
	}
	file := os.NewFile(uintptr(fd), "engine-listener")
	listener, err := net.FileListener(file)
	_ = file.Close() // FileListener works on a duplicate
	if err != nil {
		return fmt.Errorf("take over the listening socket %s=%s: %w", EnvListenFD, value, err)
	}
	c.Listener = listener
	return nil
}

func (c *ServeConfig) withDefaults() ServeConfig {
	d := *c
	if d.Log == nil {
		d.Log = slog.New(slog.DiscardHandler)
	}
	if d.MaxStatements <= 0 {
		d.MaxStatements = DefaultMaxStatements
	}
	if d.MaxWaiting <= 0 {
		d.MaxWaiting = DefaultMaxWaiting
	}
	return d
}
