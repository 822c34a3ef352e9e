package bus

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/chaintrail/chaintrail/internal/retry"
)

// Config says how to reach NATS. User-set, but for InProcess.
type Config struct {
	URL       string `yaml:"url"`                  // comma-separated servers; "" with InProcess
	Name      string `yaml:"name,omitempty"`       // shown in the server's connection list
	Token     string `yaml:"-"`                    // never in a file of settings
	TokenFile string `yaml:"token_file,omitempty"` // holds the token
	CredsFile string `yaml:"creds_file,omitempty"` // user JWT and seed
	CAFile    string `yaml:"ca_file,omitempty"`    // PEM of the authorities to trust
	CertFile  string `yaml:"cert_file,omitempty"`  // PEM of the client certificate
	KeyFile   string `yaml:"key_file,omitempty"`   // PEM of its key

	ReconnectWait time.Duration `yaml:"reconnect_wait,omitempty"` // mean pause between tries; 0 means 500 ms

	// InProcess, when set, is asked for each connection instead of the network.
	InProcess nats.InProcessConnProvider `yaml:"-"`
}

// Validate names the first setting that cannot work.
func (c Config) Validate() error {
	switch {
	case c.URL == "" && c.InProcess == nil:
		return errors.New("nats.url is empty: give nats://host:port")
	case c.Token != "" && c.TokenFile != "":
		return errors.New("nats.token_file: a token is given already")
	case (c.CertFile == "") != (c.KeyFile == ""):
		return errors.New("nats.cert_file and nats.key_file: give both or none")
	case c.ReconnectWait < 0:
		return fmt.Errorf("nats.reconnect_wait is %v: must not be negative", c.ReconnectWait)
	}
	return nil
}

// Connect returns a connection that comes up when the server does and reconnects for ever. It does not
// wait and fails only for settings that cannot work: the request path must start without NATS. Call
// [WaitReady] before the first use of JetStream, and Close at the end.
//
// Nothing is buffered while the server is away: a publish then fails at once, and is repeated by whoever
// holds the data.
func Connect(cfg Config, log *slog.Logger) (*nats.Conn, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.ReconnectWait == 0 {
		cfg.ReconnectWait = 500 * time.Millisecond
	}
	url := cfg.URL
	if url == "" {
		url = nats.DefaultURL
	}
	options := []nats.Option{
		nats.Name(cfg.Name),
		nats.MaxReconnects(-1), nats.RetryOnFailedConnect(true), nats.IgnoreAuthErrorAbort(),
		nats.ReconnectWait(cfg.ReconnectWait), nats.ReconnectJitter(cfg.ReconnectWait/2, cfg.ReconnectWait/2),
		nats.ReconnectBufSize(-1), nats.Timeout(5 * time.Second),
		nats.PingInterval(20 * time.Second), nats.MaxPingsOutstanding(2),
		nats.ConnectHandler(func(nc *nats.Conn) { log.Info("nats connected", serverAttr(nc)) }),
		nats.ReconnectHandler(func(nc *nats.Conn) { log.Info("nats connected again", serverAttr(nc)) }),
		nats.DisconnectErrHandler(func(nc *nats.Conn, err error) {
			if nc.IsClosed() {
				return
			}
			log.Warn("nats disconnected", slog.Any("error", err))
		}),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			log.Warn("nats reported an error", slog.Any("error", err))
		}),
	}
	if cfg.InProcess != nil {
		options = append(options, nats.InProcessServer(cfg.InProcess))
	}
	secure, err := cfg.secure()
	if err != nil {
		return nil, err
	}
	nc, err := nats.Connect(url, append(options, secure...)...)
	if err != nil {
		return nil, fmt.Errorf("connect to nats: %w", err)
	}
	return nc, nil
}

func (c Config) secure() ([]nats.Option, error) {
	var options []nats.Option
	token := c.Token
	if c.TokenFile != "" {
		b, err := os.ReadFile(c.TokenFile)
		if err != nil {
			return nil, fmt.Errorf("nats.token_file: %w", err)
		}
		if token = strings.TrimSpace(string(b)); token == "" {
			return nil, fmt.Errorf("nats.token_file: %s is empty", c.TokenFile)
		}
	}
	if token != "" {
		options = append(options, nats.Token(token))
	}
	if c.CredsFile != "" {
		options = append(options, nats.UserCredentials(c.CredsFile))
	}
	if c.CAFile != "" {
		options = append(options, nats.RootCAs(c.CAFile))
	}
	if c.CertFile != "" {
		options = append(options, nats.ClientCert(c.CertFile, c.KeyFile))
	}
	return options, nil
}

func serverAttr(nc *nats.Conn) slog.Attr {
	return slog.Group("server", slog.String("name", nc.ConnectedServerName()), slog.String("version", nc.ConnectedServerVersion()))
}

// WaitReady waits until the server is reached, is new enough and has JetStream. It ends early only with
// ctx, a closed connection, [ErrServerVersion], [ErrMaxPayload] or [ErrNoJetStream].
func WaitReady(ctx context.Context, nc *nats.Conn) (jetstream.JetStream, error) {
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, fmt.Errorf("jetstream: %w", err)
	}
	policy := retry.Policy{Initial: 10 * time.Millisecond, Max: time.Second}
	err = retry.Do(ctx, policy, func(ctx context.Context) error {
		if nc.IsClosed() {
			return retry.Permanent(nats.ErrConnectionClosed)
		}
		if !nc.IsConnected() {
			return nats.ErrDisconnected
		}
		if err := CheckServer(nc); err != nil {
			if errors.Is(err, ErrServerVersion) || errors.Is(err, ErrMaxPayload) {
				return retry.Permanent(err)
			}
			return err
		}
		ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		if _, err := js.AccountInfo(ctx); err != nil {
			if err = apiError(err); errors.Is(err, ErrNoJetStream) {
				return retry.Permanent(err)
			}
			return err
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("wait for nats: %w", err)
	}
	return js, nil
}
