package main

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/chaintrail/chaintrail/audit/ledger"
	"github.com/chaintrail/chaintrail/audit/verify"
	"github.com/chaintrail/chaintrail/schemas/seal"
)

// ledgerCases change what proves the events: tiles, heads and anchors, also by somebody who has the keys.
func ledgerCases() []tamper {
	return []tamper{
		{name: "a tile edited", where: "tiles", want: verify.CheckTiles, files: onTiles(func(text []byte) []byte { text[3] ^= 1; return text })},
		{name: "a tile cut", where: "tiles", want: verify.CheckTiles, files: onTiles(func(text []byte) []byte { return text[:len(text)/2] })},
		{name: "a tile removed", where: "tiles", want: verify.CheckTiles, files: onTiles(func([]byte) []byte { return nil })},
		{name: "the head edited", where: "ledger", want: verify.CheckSignature, files: onHead(func(text []byte) []byte {
			return bytes.Replace(text, []byte("\nclock "), []byte("\nclock x"), 1)
		})},
		{name: "the head signed by another key", where: "ledger", want: verify.CheckSignature, files: resigned(func(*ledger.Checkpoint) {}, true)},
		{name: "the head is garbage", where: "ledger", want: verify.CheckSignature, files: onHead(func([]byte) []byte { return []byte("x") })},
		{name: "two heads of one size, signed", where: "ledger", want: verify.CheckConsistency, files: resigned(func(h *ledger.Checkpoint) { h.Root[0] ^= 1 }, false)},
		{name: "a head of more events, signed", where: "ledger", want: verify.CheckCutTail, files: resigned(func(h *ledger.Checkpoint) { h.Size += 5 }, false)},
		{
			name: "tail cut, ledger and heads in the data removed", where: "anchor", want: verify.CheckCutTail,
			sql: remove("events", "position > {last} - 9"), files: func(dir string, _ *trail) error { return os.RemoveAll(filepath.Join(dir, "data", "ledger")) },
		},
		{
			name: "event rewritten, ledger removed", where: "anchor", want: verify.CheckTree,
			sql: append(change("events", "raw = replaceOne(raw, '\"outcome\":\"allowed\"', '\"outcome\":\"denied\"')", "position = {outcome}"),
				change("events", "hash = "+sealedHash, "position = {outcome}")...),
			files: func(dir string, _ *trail) error { return os.RemoveAll(filepath.Join(dir, "data", "ledger")) },
		},
		{
			name: "event rewritten, its successor names it no more", where: "events", want: verify.CheckLink,
			sql: append(change("events", "raw = replaceOne(raw, '\"outcome\":\"allowed\"', '\"outcome\":\"denied\"')", "position = {outcome}"),
				change("events", "hash = "+sealedHash, "position = {outcome}")...),
		},
		{name: "a line of the anchor forged", where: "anchor", want: verify.CheckSignature, files: func(dir string, _ *trail) error {
			return edit(filepath.Join(dir, "heads.ndjson"), func(text []byte) []byte {
				return bytes.Replace(text, []byte(`\nclock `), []byte(`\nclock x`), 1)
			})
		}},
	}
}

func edit(path string, change func([]byte) []byte) error {
	text, err := os.ReadFile(path) //nolint:gosec // G304: our own temporary folder
	if err != nil {
		return err
	}
	if text = change(text); text == nil {
		return os.Remove(path)
	}
	return os.WriteFile(path, text, 0o600)
}

// onTiles changes every tile of leaves: those that the newest head does not need too.
func onTiles(change func([]byte) []byte) func(string, *trail) error {
	return func(dir string, _ *trail) error {
		return filepath.WalkDir(filepath.Join(dir, "data", "ledger", "0", "tile", "0"), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			return edit(path, change)
		})
	}
}

func headPath(dir string) string { return filepath.Join(dir, "data", "ledger", "0", "checkpoint") }

func onHead(change func([]byte) []byte) func(string, *trail) error {
	return func(dir string, _ *trail) error { return edit(headPath(dir), change) }
}

// resigned signs another head, with the ledger's own keys or with somebody's of the same name.
func resigned(change func(*ledger.Checkpoint), foreign bool) func(string, *trail) error {
	return func(dir string, _ *trail) error {
		keys := ledger.NewKeyring(filepath.Join(dir, "data", "keys"), "")
		verifiers, err := keys.Verifiers()
		if err != nil {
			return err
		}
		text, err := os.ReadFile(headPath(dir))
		if err != nil {
			return err
		}
		head, _, err := ledger.ReadCheckpoint(text, "", verifiers...)
		if err != nil {
			return err
		}
		if foreign {
			name, _, _ := strings.Cut(head.Origin, "/")
			keys = ledger.NewKeyring(filepath.Join(dir, "other"), "")
			if _, err := keys.Make(name); err != nil {
				return err
			}
		}
		signers, err := keys.Signers()
		if err != nil {
			return err
		}
		change(&head)
		head.Time = time.Now()
		if head.Root == (seal.Hash{}) {
			return errors.New("an empty ledger")
		}
		text, err = head.Sign(signers...)
		if err != nil {
			return err
		}
		return os.WriteFile(headPath(dir), text, 0o600) //nolint:gosec // G703: our own temporary folder
	}
}
