package main

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	treeledger "github.com/chaintrail/chaintrail/audit/ledger"
	"github.com/chaintrail/chaintrail/bus"
	"github.com/chaintrail/chaintrail/internal/keyfile"
	"github.com/chaintrail/chaintrail/internal/lifecycle"
	"github.com/chaintrail/chaintrail/sinks/ledger"
)

// anchorPatience is how long a start waits for what one place outside has.
const anchorPatience = 5 * time.Second

// place is a configured anchor.
type place struct {
	name    string
	outside ledger.Outside
}

// anchorPlaces makes the configured anchors, and reads the newest head that each of them has. One that cannot be reached is
// said and does not count.
func (n *node) anchorPlaces(ctx context.Context, origin string, keys ledger.Keys) (places []place, known []ledger.Head, err error) {
	for _, a := range n.cfg.Seal.Anchors {
		p := place{name: a.Name, outside: treeledger.NewFileAnchor(a.Path)}
		if a.Type == "webhook" {
			var secret string
			if a.SecretFile != "" {
				if secret, err = keyfile.Read(a.SecretFile); err != nil {
					return nil, nil, usage(fmt.Errorf("secret_file of anchor %s: %w", a.Name, err))
				}
			}
			p.outside = treeledger.NewWebhookAnchor(a.URL, []byte(secret))
		}
		places = append(places, p)
		wait, cancel := context.WithTimeout(ctx, anchorPatience)
		heads, err := ledger.Look(wait, p.outside, origin, keys)
		cancel()
		if ledger.Forged(err) {
			return nil, nil, withHint(fmt.Errorf("anchor %s: %w", a.Name, err), "compare its heads with chaintrail keys list: somebody else wrote there, or the keys are not this ledger's")
		}
		if err != nil {
			n.log.WarnContext(ctx, "an anchor cannot be read; what it has is not compared", slog.String("anchor", a.Name), slog.Any("error", err))
		}
		known = append(known, heads...)
	}
	return places, known, nil
}

// anchor carries heads outside. It starts before the sealing, so that the last head is carried too.
func (n *node) anchor(ctx context.Context, places []place) error {
	for _, p := range places {
		a := ledger.NewAnchorer(n.seal.sealer, ledger.AnchorConfig{
			Name: p.name, Stream: bus.EventStream(shard), Outside: p.outside, Cursors: bus.NewCursors(n.bus.js), Log: n.log,
		})
		if err := n.group.Start(ctx, lifecycle.Background("anchor "+p.name, a.Run)); err != nil {
			return err
		}
	}
	return nil
}
