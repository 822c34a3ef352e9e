package chain

import (
	"context"
	"errors"
	"time"

	"github.com/chaintrail/chaintrail/chain/interceptor"
	"github.com/chaintrail/chaintrail/schemas"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

// LocalHost is the host name of the interceptors of a [LocalChain].
const LocalHost = "inprocess"

// LocalOptions configure a [LocalChain]; nil and zero values mean the defaults.
type LocalOptions struct {
	Config
	Timeout    time.Duration          // of an interceptor without one of its own
	Overrides  map[string]Override    // by interceptor name
	Configs    map[string]jsonx.Value // sent with each call, by interceptor name
	Envelope   bool                   // hand requests over as {method, params}
	Server     *interceptor.Options
	Background *BackgroundOptions
}

// LocalChain runs interceptors of this process, with the same results as if they were behind a connection. All methods
// are concurrent.
type LocalChain struct {
	*Runner
	server     *interceptor.Server
	background *Background
}

// NewLocalChain puts interceptors in force. It fails for descriptors and options that are in error.
func NewLocalChain(options *LocalOptions, interceptors ...interceptor.Interceptor) (*LocalChain, error) {
	var o LocalOptions
	if options != nil {
		o = *options
	}
	server, err := interceptor.New(o.Server, interceptors...)
	if err != nil {
		return nil, err
	}
	host := HostSpec{
		Ref:     schemas.HostRef{Host: LocalHost, Configs: o.Configs},
		Timeout: o.Timeout, Overrides: o.Overrides, Envelope: o.Envelope, Connect: Local(server),
	}
	set, err := NewSet(SetOptions{Config: o.Config, Hosts: []HostSpec{host}})
	if err != nil {
		return nil, err
	}
	if err := set.Start(context.Background()); err != nil { // nothing to wait for: it is this process
		return nil, err
	}
	background := NewBackground(o.Background)
	return &LocalChain{Runner: NewRunner(set.Current, background), server: server, background: background}, nil
}

// Background does the deferred work.
func (l *LocalChain) Background() *Background { return l.background }

// Close waits for deferred work and for handlers that overran their time, until ctx ends; see [Background.Close].
func (l *LocalChain) Close(ctx context.Context) error {
	return errors.Join(l.background.Close(ctx), l.server.Wait(ctx))
}
