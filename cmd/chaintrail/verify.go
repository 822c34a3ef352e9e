package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/mod/sumdb/note"

	"github.com/chaintrail/chaintrail/audit/ledger"
	"github.com/chaintrail/chaintrail/audit/verify"
	"github.com/chaintrail/chaintrail/cmd/chaintrail/config"
	"github.com/chaintrail/chaintrail/internal/query"
	"github.com/chaintrail/chaintrail/sinks/clickhouse"
)

// verifyFlags are what the user says to verify with.
type verifyFlags struct {
	keys     []string
	anchors  []string
	journals string
	proof    string
	atRest   bool
}

func newVerifyCmd(a *app) *cobra.Command {
	var flags verifyFlags
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Find out whether the audit trail is whole and unchanged",
		Long: "Compares every stored event with its hash, its place in its writer's chain and in the signed ledger, every\n" +
			"typed column with the sealed bytes, and every open item with its commitment. Says where something was\n" +
			"changed, removed, added or cut, and then exits with code 3.\n\n" +
			"With keys and a signed head that were kept outside of the data (--key, --anchor) the result is \"proven\";\n" +
			"without them it is \"self-consistent\": whoever owns data and keys can make another trail that fits together.",
		Example: "  chaintrail keys public >/mnt/auditor/keys.txt\n" +
			"  chaintrail verify --key /mnt/auditor/keys.txt --anchor /mnt/worm/heads.ndjson\n" +
			"  chaintrail verify --proof proof.json --key /mnt/auditor/keys.txt",
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case flags.proof != "" && flags.journals != "":
				return usage(errors.New("--proof and --journals exclude each other"))
			case flags.proof != "":
				return a.verifyProof(&flags)
			case flags.journals != "":
				return a.verifyJournals(cmd.Context(), &flags)
			}
			return a.withCurrentStore(cmd.Context(), func(ctx context.Context, n *node) error { return a.verifyStore(ctx, n, &flags) })
		},
	}
	f := cmd.Flags()
	f.StringArrayVar(&flags.keys, "key", nil, "public key, or a file of public keys, one a line (repeatable; default: DATA/keys, which proves less)")
	f.StringArrayVar(&flags.anchors, "anchor", nil, "file of signed heads that was kept outside of the data (repeatable)")
	f.BoolVar(&flags.atRest, "at-rest", false, "nothing is written to the store: do not wait for what is not there")
	f.StringVar(&flags.journals, "journals", "", "verify the journals in this folder instead of the store")
	f.StringVar(&flags.proof, "proof", "", "verify a proof made by chaintrail prove, offline")
	a.outputFlag(cmd)
	return cmd
}

// verifiers reads the keys that the user names, else those beside the data.
func (a *app) verifiers(named []string, cfg config.Config) (keys []note.Verifier, outside bool, err error) {
	if len(named) == 0 {
		ring, err := keyring(cfg)
		if err == nil {
			keys, err = ring.Verifiers()
		}
		if err == nil && len(keys) == 0 {
			err = ledger.ErrNoKey
		}
		return keys, false, keysError(err)
	}
	for _, text := range named {
		if !strings.Contains(text, "+") || fileExists(text) {
			content, err := os.ReadFile(text) //nolint:gosec // G304: a file that the user names
			if err != nil {
				return nil, false, usage(fmt.Errorf("--key: %w", err))
			}
			text = string(content)
		}
		for line := range strings.Lines(text) {
			if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "#") {
				continue
			}
			key, err := ledger.NewVerifier(line)
			if err != nil {
				return nil, false, usage(withHint(fmt.Errorf("--key: %w", err), "chaintrail keys public"))
			}
			keys = append(keys, key)
		}
	}
	if len(keys) == 0 {
		return nil, false, usage(withHint(errors.New("--key: there is no key in it"), "chaintrail keys public"))
	}
	return keys, true, nil
}

func fileExists(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// checker makes the verifier with everything that it must know before the first event.
func (a *app) checker(flags *verifyFlags, cfg config.Config, source string) (*verify.Checker, *ledger.Checkpoint, error) {
	keys, outside, err := a.verifiers(flags.keys, cfg)
	if err != nil {
		return nil, nil, err
	}
	if !outside {
		fmt.Fprintln(a.err, "chaintrail: the keys come from the data directory itself; name keys from outside with --key")
	}
	dir := ledgerDir(cfg)
	path := filepath.Join(dir, "checkpoint")
	text, err := os.ReadFile(path) //nolint:gosec // G304: a file of the ledger
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, nil, err
	}
	settings := verify.Config{
		Source: source, Keys: keys, KeysOutside: outside, Ledgers: map[string]verify.Ledger{},
		Sabotage: verify.Check(strings.TrimPrefix(os.Getenv(envSabotage), "verify-")),
	}
	var newest *ledger.Checkpoint
	if head, _, err := ledger.ReadCheckpoint(text, "", keys...); err == nil {
		tiles, err := ledger.NewReader(dir, head.Size, head.Root)
		if err != nil {
			return nil, nil, err
		}
		settings.Ledgers[head.Stream] = verify.Ledger{Size: head.Size, Tiles: tiles}
		newest = &head
	}
	c := verify.New(settings)
	if text != nil {
		c.Head(text, path, false)
	}
	for _, name := range flags.anchors {
		text, err := os.ReadFile(name) //nolint:gosec // G304: a file that the user names
		if err != nil {
			return nil, nil, usage(fmt.Errorf("--anchor: %w", err))
		}
		c.Anchor(text, name)
	}
	return c, newest, nil
}

func (a *app) verifyStore(ctx context.Context, n *node, flags *verifyFlags) error {
	c, newest, err := a.checker(flags, n.cfg, "store")
	if err != nil {
		return err
	}
	conn, err := clickhouse.Open(n.dsn)
	if err != nil {
		return usage(err)
	}
	defer conn.Close() //nolint:errcheck // read only
	store := verifiedStore{query.New(conn)}
	atRest := n.ownEngine || flags.atRest
	if newest != nil && !atRest {
		if err := storedUpTo(ctx, store, newest); err != nil {
			return err
		}
	}
	total, err := store.events(ctx)
	if err != nil {
		return queryError(err)
	}
	p := a.progress("verifying events", total)
	report, err := verify.Run(ctx, &verify.Store{
		Events: store, Projections: store, Items: store, Settled: atRest, Progress: p.set,
	}, c)
	p.end()
	if err != nil {
		return err
	}
	return a.printReport(report)
}

// storePatience is how long a running store is given to have what was sealed before.
const storePatience = 30 * time.Second

// storedUpTo waits until the store has the events of a head: storing and sealing go side by side.
func storedUpTo(ctx context.Context, store verifiedStore, head *ledger.Checkpoint) error {
	for end := time.Now().Add(storePatience); time.Now().Before(end); {
		leaves, err := store.leaves(ctx, head.Stream)
		if err != nil || leaves >= head.Size {
			return err
		}
		if !pause(ctx) {
			return context.Cause(ctx)
		}
	}
	return nil
}

// printReport shows a report; findings are an error.
func (a *app) printReport(r *verify.Report) error {
	if err := a.print(r, func() error { return a.reportTable(r) }); err != nil {
		return err
	}
	if n := r.Found(); n > 0 {
		return &tamperError{withHint(fmt.Errorf("%d findings: what is stored was changed or lost", n), "docs/verify.md, what a finding means")}
	}
	return nil
}

func (a *app) reportTable(r *verify.Report) error {
	t := newTable(a.out, "STREAM", "EVENTS", "LEAVES", "HEADS", "NOT SEALED YET", "NEWEST HEAD", "NEWEST OUTSIDE")
	for i := range r.Streams {
		s := &r.Streams[i]
		t.row(s.Stream, decimal(s.Events), decimal(s.Leaves), decimal(s.Heads), decimal(s.Unsealed), headText(s.Newest), headText(s.Anchor))
	}
	if err := t.flush(); err != nil {
		return err
	}
	states := map[verify.WriterState]int{}
	for i := range r.Writers {
		w := &r.Writers[i]
		if states[w.State]++; w.State == verify.WriterOpen {
			fmt.Fprintf(a.out, "writer %s of tenant %s is open, last seq %d\n", w.Writer, printable(w.Tenant, 60), w.Seq)
		}
	}
	fmt.Fprintf(a.out, "writers: %d closed, %d declared dead, %d open\n", states[verify.WriterClosed], states[verify.WriterAdopted], states[verify.WriterOpen])
	fmt.Fprintf(a.out, "open items: %d as committed to, %d erased, %d not stored yet\n", r.Items.Checked, r.Items.Erased, r.Items.Pending)
	for _, text := range r.Notes {
		fmt.Fprintln(a.out, "note:", printable(text, 400))
	}
	if len(r.Findings) > 0 {
		t := newTable(a.out, "CHECK", "WHERE", "COLUMN", "WHAT")
		for i := range r.Findings {
			f := &r.Findings[i]
			t.row(string(f.Check), f.Place(), f.Column+f.Item, f.Text)
		}
		if err := t.flush(); err != nil {
			return err
		}
	}
	fmt.Fprintf(a.out, "verdict: %s\n", r.Verdict)
	if r.Verdict == verify.VerdictConsistent {
		fmt.Fprintln(a.out, "not proven: "+lacking(r))
	}
	return nil
}

// lacking says what would make a proof of it.
func lacking(r *verify.Report) string {
	if len(r.Keys) == 0 {
		return "a journal is under no signed head; verify the store to compare with one"
	}
	if !r.KeysOutside {
		return "the keys lie beside the data; name keys from outside with --key"
	}
	return "no head from outside was compared; name one with --anchor"
}

func decimal(n uint64) string { return strconv.FormatUint(n, 10) }

func headText(h *verify.HeadReport) string {
	if h == nil {
		return "none"
	}
	return fmt.Sprintf("%d of %s", h.Size, h.Time.UTC().Format(time.RFC3339))
}

// verifyProof checks a proof with nothing but keys.
func (a *app) verifyProof(flags *verifyFlags) error {
	if len(flags.keys) == 0 {
		return usage(withHint(errors.New("--proof needs the public key that you trust, with --key"), "chaintrail keys public, on the side that made the proof"))
	}
	keys, _, err := a.verifiers(flags.keys, config.Config{})
	if err != nil {
		return err
	}
	text, err := os.ReadFile(flags.proof)
	if err != nil {
		return usage(fmt.Errorf("--proof: %w", err))
	}
	proof, err := verify.ParseProof(text)
	if err != nil {
		return usage(fmt.Errorf("--proof %s: %w", flags.proof, err))
	}
	proven, err := proof.Check(keys...)
	if err != nil {
		return &tamperError{fmt.Errorf("%s: %w", flags.proof, err)}
	}
	return a.print(proven, func() error {
		for i, event := range proven.Events {
			fmt.Fprintf(a.out, "%s  %s  writer %s seq %d  leaf %d  %s\n", event.Time, event.Kind, event.Writer, event.Seq, proof.Events[i].Leaf, a.operation(event))
		}
		fmt.Fprintf(a.out, "proven: %d events and %d open items, under the head %s of %d events, signed %s by %s\n", len(proven.Events), proven.Items,
			printable(proven.Head.Origin, 100), proven.Head.Size, proven.Head.Time.UTC().Format(time.RFC3339), strings.Join(proven.Keys, ", "))
		return nil
	})
}
