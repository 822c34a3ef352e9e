package bus

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	// MinServer is the oldest NATS server with atomic batch publishing.
	MinServer = "2.12.0"
	// CursorBucket is the key-value bucket of [Cursors].
	CursorBucket = "CHAINTRAIL_CURSORS"
	// PartBytes bounds the data of one message of the open stream; longer items travel in parts.
	PartBytes = 512 << 10

	minMessage = 1 << 20 // a part with its header fits
)

// EventStream is the name of a shard's stream of sealed events.
func EventStream(shard int) string { return "CHAINTRAIL_" + strconv.Itoa(shard) }

// OpenStream is the name of a shard's stream of open items.
func OpenStream(shard int) string { return "CHAINTRAIL_OPEN_" + strconv.Itoa(shard) }

// StreamConfig describes the pair of streams of one shard. User-set.
type StreamConfig struct {
	Shard        int   `yaml:"shard"`
	MaxBytes     int64 `yaml:"max_bytes"`        // bound of the stream of sealed events; full means: refuse new ones
	OpenMaxBytes int64 `yaml:"open_max_bytes"`   // bound of the stream of open items
	MaxMessage   int32 `yaml:"max_message"`      // bound of one message with its headers, bytes
	Replicas     int   `yaml:"replicas"`         // 1, or 3 and 5 in a cluster
	CursorBytes  int64 `yaml:"max_cursor_bytes"` // bound of the bucket of cursors
}

// DefaultStreamConfig fits one machine.
func DefaultStreamConfig() StreamConfig {
	return StreamConfig{MaxBytes: 4 << 30, OpenMaxBytes: 8 << 30, MaxMessage: minMessage, Replicas: 1, CursorBytes: 64 << 20}
}

// Validate names the first setting that cannot work.
func (c StreamConfig) Validate() error {
	switch {
	case c.Shard < 0:
		return fmt.Errorf("stream.shard is %d: must not be negative", c.Shard)
	case c.MaxBytes < 8<<20:
		return fmt.Errorf("stream.max_bytes is %d: at least %d", c.MaxBytes, 8<<20)
	case c.OpenMaxBytes < 8<<20:
		return fmt.Errorf("stream.open_max_bytes is %d: at least %d", c.OpenMaxBytes, 8<<20)
	case c.MaxMessage < minMessage:
		return fmt.Errorf("stream.max_message is %d: at least %d", c.MaxMessage, minMessage)
	case c.CursorBytes < 1<<20:
		return fmt.Errorf("stream.max_cursor_bytes is %d: at least %d", c.CursorBytes, 1<<20)
	case c.Replicas < 1 || c.Replicas > 5:
		return fmt.Errorf("stream.replicas is %d: 1 to 5", c.Replicas)
	}
	return nil
}

// Ensure makes the shard's streams and the bucket of cursors, or brings their limits to what cfg says.
// It refuses a server that is too old. Several processes may call it at once with equal settings.
func Ensure(ctx context.Context, js jetstream.JetStream, cfg StreamConfig) error {
	if err := cfg.Validate(); err != nil {
		return err
	}
	if err := CheckServer(js.Conn()); err != nil {
		return err
	}
	for _, stream := range []jetstream.StreamConfig{
		cfg.stream(EventStream(cfg.Shard), eventPrefix, cfg.MaxBytes),
		cfg.stream(OpenStream(cfg.Shard), openPrefix, cfg.OpenMaxBytes),
	} {
		if _, err := js.CreateOrUpdateStream(ctx, stream); err != nil {
			return fmt.Errorf("make stream %s: %w", stream.Name, apiError(err))
		}
	}
	_, err := js.CreateOrUpdateKeyValue(ctx, jetstream.KeyValueConfig{
		Bucket: CursorBucket, Description: "positions of chaintrail's consumers", History: 4,
		MaxBytes: cfg.CursorBytes, Storage: jetstream.FileStorage, Replicas: cfg.Replicas,
	})
	if err != nil {
		return fmt.Errorf("make bucket %s: %w", CursorBucket, apiError(err))
	}
	return nil
}

func (c StreamConfig) stream(name, prefix string, maxBytes int64) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name:     name,
		Subjects: []string{prefix + "." + strconv.Itoa(c.Shard) + ".>"},
		// Limits retention without an age: a work queue loses messages at max-deliver, MaxAge deletes what nobody has
		// read. Discard new: a full stream refuses, the journal keeps.
		Retention: jetstream.LimitsPolicy, Discard: jetstream.DiscardNew, MaxAge: 0,
		MaxMsgs: -1, MaxMsgsPerSubject: -1, MaxConsumers: -1,
		MaxBytes: maxBytes, MaxMsgSize: c.MaxMessage,
		Storage: jetstream.FileStorage, Replicas: c.Replicas,
		AllowAtomicPublish: true, AllowDirect: true,
		DenyDelete: false, DenyPurge: false, // trims and erasure
	}
}

// CheckServer refuses a server older than [MinServer], or one that takes only small messages. The connection must have been up once.
func CheckServer(nc *nats.Conn) error {
	got := nc.ConnectedServerVersion()
	if got == "" {
		return fmt.Errorf("server version: %w", nats.ErrDisconnected)
	}
	if !atLeast(got, MinServer) {
		return fmt.Errorf("%w: it is version %s, chaintrail needs %s or newer (atomic batch publishing)", ErrServerVersion, got, MinServer)
	}
	if most := nc.MaxPayload(); most < minPayload {
		return fmt.Errorf("%w: %d bytes, chaintrail needs %d", ErrMaxPayload, most, minPayload)
	}
	return nil
}

// minPayload is the default of NATS; items travel in parts of half of it.
const minPayload = 1 << 20

func atLeast(got, want string) bool {
	g, w := versionNumbers(got), versionNumbers(want)
	for i := range w {
		if g[i] != w[i] {
			return g[i] > w[i]
		}
	}
	return true
}

func versionNumbers(s string) (n [3]int) {
	s, _, _ = strings.Cut(strings.TrimPrefix(s, "v"), "-")
	for i, part := range strings.SplitN(s, ".", len(n)) {
		n[i], _ = strconv.Atoi(part)
	}
	return n
}

// apiError gives the most frequent refusals the class that callers look for.
func apiError(err error) error {
	if errors.Is(err, jetstream.ErrJetStreamNotEnabled) || errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount) {
		return fmt.Errorf("%w: %w", ErrNoJetStream, err)
	}
	return err
}

// apiSubject is the subject of a JetStream API call, with the account's prefix or domain.
func apiSubject(js jetstream.JetStream, call string) string {
	switch options := js.Options(); {
	case options.APIPrefix != "":
		return strings.TrimSuffix(options.APIPrefix, ".") + "." + call
	case options.Domain != "":
		return "$JS." + options.Domain + ".API." + call
	default:
		return "$JS.API." + call
	}
}
