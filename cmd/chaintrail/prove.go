package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"uuid"

	driveruuid "github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/chaintrail/chaintrail/audit/ledger"
	"github.com/chaintrail/chaintrail/audit/verify"
	"github.com/chaintrail/chaintrail/internal/query"
	"github.com/chaintrail/chaintrail/sinks/clickhouse"
)

func newProveCmd(a *app) *cobra.Command {
	var bodies bool
	cmd := &cobra.Command{
		Use:   "prove ID",
		Short: "Make a proof of one exchange or event that others can check",
		Long: "Writes a self-contained proof as JSON: the sealed bytes of the events, where they stand in the signed ledger, and\n" +
			"the signed head. Whoever has the public key checks it with chaintrail verify --proof, or with a few lines of\n" +
			"their own. With --with-bodies it also holds what was kept of bodies and context, with the salts: this gives\n" +
			"their content away.",
		Example: "  chaintrail prove 0193b0d2 >proof.json\n  chaintrail verify --proof proof.json --key keys.txt",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usage(withHint(errors.New("prove needs the id of one exchange or event"), "chaintrail search"))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withCurrentStore(cmd.Context(), func(ctx context.Context, n *node) error { return a.prove(ctx, n, args[0], bodies) })
		},
	}
	cmd.Flags().BoolVar(&bodies, "with-bodies", false, "show open items too: bodies, context and details, as far as they are kept")
	return cmd
}

var errNotSealed = errors.New("not under a signed head yet")

func (a *app) prove(ctx context.Context, n *node, id string, bodies bool) error {
	proof, head, prover, err := a.beginProof(n)
	if err != nil {
		return err
	}
	conn, err := clickhouse.Open(n.dsn)
	if err != nil {
		return usage(err)
	}
	defer conn.Close() //nolint:errcheck // read only
	store := verifiedStore{query.New(conn)}
	rows, err := store.eventsOf(ctx, id)
	if err != nil {
		return queryError(err)
	}
	var items []verify.ContextRow
	if bodies {
		ids := make([]uuid.UUID, len(rows))
		for i := range rows {
			ids[i] = rows[i].Event
		}
		if items, err = store.ItemsOf(ctx, ids); err != nil {
			return err
		}
	}
	left := 0
	for i := range rows {
		if rows[i].Stream != head.Stream || rows[i].Leaf >= head.Size {
			left++
			continue
		}
		if err := proof.Add(prover, &rows[i], items); err != nil {
			return err
		}
	}
	if len(proof.Events) == 0 {
		return withHint(fmt.Errorf("%s: %w", id, errNotSealed), "chaintrail status; a head is signed every few seconds")
	}
	if left > 0 {
		fmt.Fprintf(a.err, "chaintrail: %d events of it are %v and are left out\n", left, errNotSealed)
	}
	return a.checked(n, proof)
}

// beginProof reads the newest head and the tiles under it.
func (a *app) beginProof(n *node) (*verify.Proof, *ledger.Checkpoint, *ledger.Reader, error) {
	keys, _, err := a.verifiers(nil, n.cfg)
	if err != nil {
		return nil, nil, nil, err
	}
	dir := ledgerDir(n.cfg)
	text, err := os.ReadFile(filepath.Join(dir, "checkpoint")) //nolint:gosec // G304: a file of the ledger
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil, withHint(errNotSealed, "run this where the ledger is kept: "+dir)
	}
	if err != nil {
		return nil, nil, nil, err
	}
	head, signatures, err := ledger.ReadCheckpoint(text, "", keys...)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("%s: %w", dir, err)
	}
	var ids []string
	for _, s := range signatures {
		ids = append(ids, fmt.Sprintf("%s+%08x", s.Name, s.Hash))
	}
	prover, err := ledger.NewReader(dir, head.Size, head.Root)
	return verify.NewProof(text, ids), &head, prover, err
}

// checked prints a proof that holds: one of a store that was changed is not handed out.
func (a *app) checked(n *node, proof *verify.Proof) error {
	keys, _, err := a.verifiers(nil, n.cfg)
	if err != nil {
		return err
	}
	if _, err := proof.Check(keys...); err != nil {
		return &tamperError{withHint(err, "chaintrail verify")}
	}
	return a.printJSON(proof)
}

// eventsOf returns the events of an exchange, or the one event, that an id means.
func (s verifiedStore) eventsOf(ctx context.Context, id string) ([]verify.EventRow, error) {
	full, err := uuid.Parse(id)
	if err != nil {
		timeline, err := s.reader.Show(ctx, id, 1)
		if err != nil {
			return nil, err
		}
		full = timeline.Exchange
	}
	rows, err := collect(query.Rows[verify.EventRow](ctx, s.reader, "events", "WHERE exchange_id = ? OR event_id = ? ORDER BY stream, position LIMIT ?",
		driveruuid.UUID(full), driveruuid.UUID(full), maxNamed))
	if err == nil && len(rows) == 0 {
		err = fmt.Errorf("%w: %s", query.ErrNotFound, id)
	}
	return rows, err
}
