package ledger

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/chaintrail/chaintrail/audit/ledger"
	"github.com/chaintrail/chaintrail/internal/retry"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
	"github.com/chaintrail/chaintrail/sinks"
)

// Outside keeps heads where the owner of the data cannot change them.
type Outside interface {
	// Put keeps a head. It may be called again with the same one.
	Put(ctx context.Context, head *ledger.Checkpoint, signed []byte) error
	// Newest returns the largest head of a ledger that is kept; nil if there is none, or if this place cannot be asked.
	Newest(ctx context.Context, origin string) ([]byte, error)
}

// Anchor is how far one place outside is.
type Anchor struct {
	Size     uint64    `json:"size"`     // leaves under the newest head there
	Position uint64    `json:"position"` // of the stream, under it
	Time     time.Time `json:"time"`     // when it was put there
}

// AnchorConfig of an [Anchorer].
type AnchorConfig struct {
	Name    string // of the place; its state is kept under "anchor.", this name and the stream's
	Stream  string
	Outside Outside
	Cursors sinks.Cursors
	Every   time.Duration // how often a new head is looked for; 0 means a second
	Log     *slog.Logger
}

// Anchorer carries the newest head of a sealer to one place outside. Heads that are overtaken while the place is away are
// left out: a newer one covers them. It holds one head.
type Anchorer struct {
	config   AnchorConfig
	sealer   *Sealer
	anchor   Anchor
	revision uint64
}

// anchorLast is for the last head when the process ends.
const anchorLast = 5 * time.Second

// NewAnchorer carries what a sealer signs.
func NewAnchorer(sealer *Sealer, config AnchorConfig) *Anchorer {
	if config.Every <= 0 {
		config.Every = time.Second
	}
	return &Anchorer{config: config, sealer: sealer}
}

// Run carries heads until ctx ends, then tries the last one once more. A place that refuses is asked again for as long as it
// takes.
func (a *Anchorer) Run(ctx context.Context) error {
	var err error
	if a.anchor, a.revision, err = anchored(ctx, a.config.Cursors, a.config.Name, a.config.Stream); err != nil && ctx.Err() == nil {
		return err
	}
	for retry.Sleep(ctx, a.config.Every) {
		policy := retry.Policy{Max: time.Minute, Notify: retry.Seldom(func(err error, tries int, _ time.Duration) {
			a.config.Log.WarnContext(ctx, "a head is not anchored yet", slog.String("anchor", a.config.Name), slog.Int("tries", tries), slog.Any("error", err))
		})}
		if err := retry.Do(ctx, policy, a.carry); err != nil && ctx.Err() == nil {
			return err
		}
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), anchorLast)
	defer cancel()
	if err := a.carry(last); err != nil {
		a.config.Log.WarnContext(ctx, "the last head is not anchored; the next start does it", slog.String("anchor", a.config.Name), slog.Any("error", err))
	}
	return nil
}

func (a *Anchorer) carry(ctx context.Context) error {
	newest := a.sealer.head.Load()
	if newest == nil || newest.head.Size <= a.anchor.Size {
		return nil
	}
	if err := a.config.Outside.Put(ctx, &newest.head, newest.text); err != nil {
		return err
	}
	next := Anchor{newest.head.Size, newest.head.Position, time.Now().UTC()}
	raw, err := jsonx.Marshal(&next)
	if err != nil {
		return retry.Permanent(fmt.Errorf("anchor %s: %w", a.config.Name, err))
	}
	revision, err := a.config.Cursors.Put(ctx, anchorKey(a.config.Name, a.config.Stream), raw, a.revision)
	switch {
	case errors.Is(err, sinks.ErrConflict): // the fence decides who seals; this only tells how far the place is
		_, a.revision, err = anchored(ctx, a.config.Cursors, a.config.Name, a.config.Stream)
		return err
	case err != nil:
		return fmt.Errorf("anchor %s: %w", a.config.Name, err)
	}
	a.anchor, a.revision = next, revision
	return nil
}

func anchorKey(name, stream string) string { return "anchor." + name + "." + stream }

// AnchoredAt returns how far a place outside is with a stream.
func AnchoredAt(ctx context.Context, cursors sinks.Cursors, name, stream string) (Anchor, error) {
	anchor, _, err := anchored(ctx, cursors, name, stream)
	return anchor, err
}

func anchored(ctx context.Context, cursors sinks.Cursors, name, stream string) (anchor Anchor, revision uint64, err error) {
	raw, revision, err := cursors.Get(ctx, anchorKey(name, stream))
	if err == nil && len(raw) > 0 {
		err = jsonx.UnmarshalStrict(raw, &anchor)
	}
	if err != nil {
		return Anchor{}, 0, fmt.Errorf("how far anchor %s is: %w", name, err)
	}
	return anchor, revision, nil
}

// Look reads the newest head that a place outside keeps of a ledger, for [Config.Known]. Only one that a key of the ledger
// has signed counts; another under its name is an error.
func Look(ctx context.Context, place Outside, origin string, keys Keys) ([]Head, error) {
	text, err := place.Newest(ctx, origin)
	if err != nil || text == nil {
		return nil, err
	}
	verifiers, err := keys.Verifiers()
	if err != nil {
		return nil, err
	}
	c, _, err := ledger.ReadCheckpoint(text, origin, verifiers...)
	if err != nil {
		return nil, fmt.Errorf("a head that is kept outside: %w", err)
	}
	return []Head{{c.Size, c.Root}}, nil
}

// Forged reports whether an error of [Look] says that what is kept outside is not this ledger's, rather than out of reach.
func Forged(err error) bool {
	return errors.Is(err, ledger.ErrSignature) || errors.Is(err, ledger.ErrCheckpoint)
}
