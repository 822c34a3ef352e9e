package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"strconv"
	"sync/atomic"
	"time"
	"uuid"

	"github.com/prometheus/client_golang/prometheus"

	treeledger "github.com/chaintrail/chaintrail/audit/ledger"
	"github.com/chaintrail/chaintrail/bus"
	"github.com/chaintrail/chaintrail/chain"
	"github.com/chaintrail/chaintrail/cmd/chaintrail/config"
	"github.com/chaintrail/chaintrail/internal/keyfile"
	"github.com/chaintrail/chaintrail/internal/lifecycle"
	"github.com/chaintrail/chaintrail/internal/telemetry"
	"github.com/chaintrail/chaintrail/schemas"
	"github.com/chaintrail/chaintrail/sinks"
	"github.com/chaintrail/chaintrail/sinks/ledger"
)

// envPassphrase encrypts the private keys of the ledger, if no file is configured.
const envPassphrase = "CHAINTRAIL_SEAL_PASSPHRASE" //nolint:gosec // G101: the name of a variable

var errNoJournal = errors.New("there is no journal at this moment")

// sealing is the ledger of this process's shard.
type sealing struct {
	sealer   *ledger.Sealer
	pipeline *sinks.Pipeline
	keys     *treeledger.Keyring
	recorder atomic.Pointer[chain.Recorder] // while the journal is open
}

func ledgerDir(cfg config.Config) string { return cfg.Dir("ledger", strconv.Itoa(shard)) }

// keyring is where the ledger's keys lie.
func keyring(cfg config.Config) (*treeledger.Keyring, error) {
	passphrase := os.Getenv(envPassphrase)
	if path := cfg.Seal.PassphraseFile; path != "" {
		var err error
		if passphrase, err = keyfile.Read(path); err != nil {
			return nil, usage(fmt.Errorf("seal.passphrase_file: %w", err))
		}
	}
	return treeledger.NewKeyring(cfg.Dir("keys"), passphrase), nil
}

// ledgerName is what the first key of a ledger gets when nobody chose a name: no other ledger has it.
func ledgerName(cfg config.Config) string {
	if cfg.Seal.Name != "" {
		return cfg.Seal.Name
	}
	return "chaintrail/" + uuid.New().String()
}

// sealStream seals the events of the shard. It starts before the journal, so that it ends after it: the last event of this
// process is sealed too.
func (n *node) sealStream(ctx context.Context) error {
	if n.cfg.Seal.Off {
		return nil
	}
	keys, err := keyring(n.cfg)
	if err != nil {
		return err
	}
	name, err := keys.Name()
	if errors.Is(err, fs.ErrNotExist) {
		name = ledgerName(n.cfg)
		_, err = keys.Make(name)
		if errors.Is(err, treeledger.ErrKeyExists) { // another process was faster
			name, err = keys.Name()
		}
	}
	if err == nil {
		_, err = keys.Signers() // a key that cannot be opened is told now, not at the first head
	}
	if err != nil {
		return fmt.Errorf("keys of the ledger: %w", err)
	}
	s := &sealing{keys: keys}
	origin := name + "/" + strconv.Itoa(shard)
	places, known, err := n.anchorPlaces(ctx, origin, keys)
	if err != nil {
		return err
	}
	s.sealer, err = ledger.New(ledger.Config{
		Dir: ledgerDir(n.cfg), Origin: origin, Keys: keys, Fence: bus.NewCursors(n.bus.js), Known: known,
		Publish: s.record, Clock: clockState, Every: n.cfg.Seal.Every, Leaves: uint64(n.cfg.Seal.Events), //nolint:gosec // G115: checked to be positive
		Sabotage: n.sabotageFor("seal-flush", "seal-fence", "seal-sign"), Log: n.log,
	})
	if err != nil {
		return err
	}
	s.pipeline = sinks.NewPipeline(sinks.Parts{
		Source: bus.NewReader(n.bus.js, bus.EventStream(shard), nil, n.log),
		Decode: sinks.DecodeEvent, Sink: s.sealer, Letters: n.letters("ledger"),
	}, &sinks.Options{Log: n.log})
	n.seal = s
	if err := n.anchor(ctx, places); err != nil {
		return err
	}
	part := n.drained("sealing "+bus.EventStream(shard), bus.EventStream(shard), hinted{s.pipeline, ledgerDir(n.cfg)})
	stop := part.Stop
	part.Stop = func(ctx context.Context) error { return errors.Join(stop(ctx), s.sealer.Close(ctx)) }
	if err := n.group.Start(ctx, part); err != nil {
		return err
	}
	return n.group.Start(ctx, lifecycle.Background("signing "+bus.EventStream(shard), s.sealer.Run))
}

// hinted says the way out of what ends a sealing.
type hinted struct {
	pipeline
	dir string
}

// Run implements pipeline.
func (h hinted) Run(ctx context.Context) error {
	err := h.pipeline.Run(ctx)
	switch {
	case errors.Is(err, ledger.ErrFork), errors.Is(err, treeledger.ErrTiles), errors.Is(err, treeledger.ErrCheckpoint), errors.Is(err, treeledger.ErrSignature):
		return withHint(err, "restore "+h.dir+" from its newest backup; nothing is signed until it fits, traffic can go on with seal.off")
	case errors.Is(err, ledger.ErrLocked), errors.Is(err, sinks.ErrConflict):
		return withHint(err, "one process stores and seals a shard: stop the other one")
	}
	return err
}

// recordHeads lets the sealing write into this process's journal, for as long as it is open.
func (n *node) recordHeads(ctx context.Context) error {
	if n.seal == nil {
		return nil
	}
	acts := lifecycle.Background("key events", n.seal.recordActs)
	return n.group.Start(ctx, lifecycle.Part{
		Name: "ledger records",
		Start: func(ctx context.Context) error {
			n.seal.recorder.Store(&n.recorder)
			return acts.Start(ctx)
		},
		Stop: func(ctx context.Context) error {
			n.seal.recorder.Store(nil)
			return acts.Stop(ctx)
		},
	})
}

func (s *sealing) write(ctx context.Context, event schemas.Event) error {
	recorder := s.recorder.Load()
	if recorder == nil {
		return errNoJournal
	}
	return (*recorder).Record(ctx, &schemas.Record{Event: event})
}

// record makes a signed head an event.
func (s *sealing) record(ctx context.Context, head treeledger.Checkpoint, signed []byte) error {
	return s.write(ctx, schemas.Event{Kind: schemas.KindCheckpoint, Checkpoint: &schemas.Checkpoint{
		Origin: head.Origin, Size: head.Size, Root: head.Root, Position: head.Position, Note: string(signed),
	}})
}

// recordActs makes what was done with keys, also by other processes, events.
func (s *sealing) recordActs(ctx context.Context) error {
	tick := time.NewTicker(actsEvery)
	defer tick.Stop()
	for {
		acts, err := s.keys.Acts()
		for _, act := range acts {
			if err != nil {
				break
			}
			err = s.write(ctx, schemas.Event{Kind: schemas.KindAdmin, Admin: &schemas.Admin{Action: act.Action, Name: act.Key, Digest: act.Digest}})
			if err == nil {
				err = s.keys.Recorded(act)
			}
		}
		select {
		case <-ctx.Done():
			return nil // what is left is recorded at the next start
		case <-tick.C:
		}
	}
}

const actsEvery = 5 * time.Second

// sealed is the position up to which this process has sealed; without a sealing nothing waits for one.
func (n *node) sealed() uint64 {
	if n.seal == nil {
		return math.MaxUint64
	}
	return n.seal.sealer.Stats().Sealed
}

func sealMetrics(r prometheus.Registerer, stats func() ledger.Stats) {
	for _, m := range []struct {
		name, help string
		read       func(*ledger.Stats) float64
	}{
		{"position", "Stream position up to which all events are under a signed head.", func(s *ledger.Stats) float64 { return float64(s.Sealed) }},
		{"leaves", "Events in the ledger's tree.", func(s *ledger.Stats) float64 { return float64(s.Leaves) }},
		{"signed_leaves", "Events under the newest signed head.", func(s *ledger.Stats) float64 { return float64(s.Signed) }},
		{"behind", "1 while the ledger is behind a head that was signed before: nothing is signed.", func(s *ledger.Stats) float64 { return number(s.Behind) }},
		{"failed", "1 when the sealing has ended with an error.", func(s *ledger.Stats) float64 { return number(s.Err != nil) }},
		{"checkpoint_age_seconds", "Time since the newest head was signed; while nothing happens it grows.", func(s *ledger.Stats) float64 {
			if s.SignedAt.IsZero() {
				return 0
			}
			return time.Since(s.SignedAt).Seconds()
		}},
	} {
		telemetry.Gauge(r, "seal", m.name, m.help, func() float64 {
			s := stats()
			return m.read(&s)
		})
	}
}

func number(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
