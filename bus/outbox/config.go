package outbox

import (
	"errors"
	"fmt"
	"time"

	"github.com/chaintrail/chaintrail/schemas"
)

// Durability says what a record has survived when Record returns.
type Durability string

// The durabilities.
const (
	DurableProcess Durability = "process" // handed to the OS: survives kill -9, not a power loss
	DurableDisk    Durability = "disk"    // on the disk (group fdatasync): survives a power loss
)

// Durabilities holds the durability of each class of events. Empty means process.
type Durabilities struct {
	Request  Durability `yaml:"request"`
	Outcome  Durability `yaml:"outcome"`
	Deferred Durability `yaml:"deferred"` // invocation events
	Control  Durability `yaml:"control"`  // every other kind
}

// OnFull says what happens to request events from 90 % of MaxBytes on.
type OnFull string

// The behaviours of a full journal.
const (
	FullFail  OnFull = "fail"  // Record returns ErrFull: the exchange is refused
	FullBlock OnFull = "block" // Record waits for room until its context ends
	FullShed  OnFull = "shed"  // Record succeeds without recording, counts it on disk and sets Record.Shed
)

// Bounds and defaults of a [Config].
const (
	DefaultSegmentBytes = 64 << 20
	DefaultMaxBytes     = 4 << 30
	DefaultKeepFor      = 10 * time.Minute
	MinSegmentBytes     = 4 << 10
	MaxRecord           = 1 << 30 // bytes of one item in the journal
	// MaxSealed bounds the sealed part of an event, in bytes: with its headers it fits into one message of a NATS
	// server on default settings (1 MiB). A larger one would hold up everything behind it for ever.
	MaxSealed = 896 << 10
)

// SabotageSkipJournal makes Record pretend for one request event in twenty. See Config.Sabotage.
const SabotageSkipJournal = "skip-journal"

// Config is an outbox's configuration. The zero value of every optional field means its default.
type Config struct {
	Dir     string `yaml:"-"` // required: folder of all journals of this data directory
	Tenant  string `yaml:"-"` // written into every event; default "default"
	Gateway string `yaml:"-"` // written into events that name none
	Version string `yaml:"-"` // chaintrail's version, for the writer event

	Durability   Durabilities  `yaml:"durability"`
	SegmentBytes int64         `yaml:"segment_bytes"` // a segment is closed when it is longer; at most a quarter of MaxBytes
	MaxBytes     int64         `yaml:"max_bytes"`     // bound of this writer's journal
	OnFull       OnFull        `yaml:"on_full"`
	KeepFor      time.Duration `yaml:"keep_for"` // least age of a segment before it is deleted

	// Sabotage breaks the journal on purpose, so that a crash harness can prove that it notices.
	// For tests only: the command takes it from the environment variable CHAINTRAIL_SABOTAGE and
	// from nowhere else.
	Sabotage string `yaml:"-"`
}

// DefaultConfig returns the defaults, with Dir left to the caller.
func DefaultConfig() Config {
	p := DurableProcess
	return Config{
		Tenant:       "default",
		Durability:   Durabilities{Request: p, Outcome: p, Deferred: p, Control: p},
		SegmentBytes: DefaultSegmentBytes,
		MaxBytes:     DefaultMaxBytes,
		OnFull:       FullFail,
		KeepFor:      DefaultKeepFor,
	}
}

// withDefaults fills what is zero.
func (c Config) withDefaults() Config {
	d := DefaultConfig()
	def(&c.Tenant, d.Tenant)
	def(&c.Durability.Request, d.Durability.Request)
	def(&c.Durability.Outcome, d.Durability.Outcome)
	def(&c.Durability.Deferred, d.Durability.Deferred)
	def(&c.Durability.Control, d.Durability.Control)
	def(&c.MaxBytes, d.MaxBytes)
	def(&c.SegmentBytes, min(d.SegmentBytes, c.MaxBytes/8))
	def(&c.OnFull, d.OnFull)
	def(&c.KeepFor, d.KeepFor)
	return c
}

func def[T comparable](p *T, v T) {
	var zero T
	if *p == zero {
		*p = v
	}
}

// Validate reports every bad value with its key.
func (c Config) Validate() error {
	c = c.withDefaults()
	var errs []error
	bad := func(key string, value any, want string) {
		errs = append(errs, fmt.Errorf("journal %s: %v: must be %s", key, value, want))
	}
	if c.Dir == "" {
		bad("dir", `""`, "a folder")
	}
	for _, d := range []struct {
		key string
		v   Durability
	}{
		{"request", c.Durability.Request},
		{"outcome", c.Durability.Outcome},
		{"deferred", c.Durability.Deferred},
		{"control", c.Durability.Control},
	} {
		if d.v != DurableProcess && d.v != DurableDisk {
			bad("durability."+d.key, d.v, "process or disk")
		}
	}
	if c.SegmentBytes < MinSegmentBytes {
		bad("segment_bytes", c.SegmentBytes, fmt.Sprintf("at least %d", MinSegmentBytes))
	}
	if c.MaxBytes/4 < c.SegmentBytes {
		bad("max_bytes", c.MaxBytes, fmt.Sprintf("at least four times segment_bytes (%d)", c.SegmentBytes))
	}
	if c.OnFull != FullFail && c.OnFull != FullBlock && c.OnFull != FullShed {
		bad("on_full", c.OnFull, "fail, block or shed")
	}
	if c.KeepFor < 0 {
		bad("keep_for", c.KeepFor, "positive")
	}
	if c.Sabotage != "" && c.Sabotage != SabotageSkipJournal {
		bad("sabotage", c.Sabotage, SabotageSkipJournal)
	}
	return errors.Join(errs...)
}

// of returns the durability of a kind of events; ok is false for a kind that does not exist.
func (d *Durabilities) of(k schemas.Kind) (_ Durability, ok bool) {
	switch k {
	case schemas.KindRequest:
		return d.Request, true
	case schemas.KindOutcome:
		return d.Outcome, true
	case schemas.KindInvocation:
		return d.Deferred, true
	case schemas.KindWriter, schemas.KindPlan, schemas.KindGap, schemas.KindAdmin, schemas.KindCheckpoint:
		return d.Control, true
	}
	return "", false
}

// anyDisk reports whether any class waits for the disk.
func (d *Durabilities) anyDisk() bool {
	return d.Request == DurableDisk || d.Outcome == DurableDisk || d.Deferred == DurableDisk || d.Control == DurableDisk
}
