package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/chaintrail/chaintrail/audit/ledger"
)

func newKeysCmd(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "keys",
		Short: "Make, list, rotate and revoke the keys that sign the ledger",
		Long: "The ledger's heads are signed with Ed25519 keys, as notes that standard tools verify (C2SP signed-note).\n" +
			"Private halves lie in DATA/keys with mode 0600, encrypted if seal.passphrase_file or\n" +
			envPassphrase + " is set. Each change becomes an admin event as soon as a process seals.",
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newKeysMakeCmd(a), newKeysListCmd(a), newKeysRotateCmd(a), newKeysRevokeCmd(a), newKeysPublicCmd(a))
	return cmd
}

// withKeys runs a command on the keys of the configured data directory.
func (a *app) withKeys(use func(*ledger.Keyring) error) error {
	cfg, err := a.load()
	if err != nil {
		return err
	}
	keys, err := keyring(cfg)
	if err != nil {
		return err
	}
	return keysError(use(keys))
}

func keysError(err error) error {
	switch {
	case errors.Is(err, ledger.ErrKeyExists), errors.Is(err, ledger.ErrLastKey):
		return withHint(err, "chaintrail keys rotate")
	case errors.Is(err, ledger.ErrNoKey):
		return withHint(err, "chaintrail keys list; the first one is made with chaintrail keys make or by chaintrail up")
	}
	return err
}

func newKeysMakeCmd(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "make",
		Short: "Make the first key, before chaintrail up does",
		Long:  "Makes the ledger's first key under seal.name, or under a name of its own. The name is the ledger's for ever.",
		Args:  noArgs,
		RunE: func(*cobra.Command, []string) error {
			cfg, err := a.load()
			if err != nil {
				return err
			}
			return a.withKeys(func(keys *ledger.Keyring) error { return a.printKey(keys.Make(ledgerName(cfg))) })
		},
	}
}

func newKeysRotateCmd(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "rotate",
		Short: "Make another key; the one before signs on until a head carries both",
		Args:  noArgs,
		RunE: func(*cobra.Command, []string) error {
			return a.withKeys(func(keys *ledger.Keyring) error { return a.printKey(keys.Rotate()) })
		},
	}
}

func newKeysRevokeCmd(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "revoke ID",
		Short: "End a key at once: what is signed with it from now on proves nothing",
		Long: "Ends a key that somebody else may have. Heads that it signed before stay valid as far as anchors outside show\n" +
			"them. The key that signs alone cannot be revoked: rotate first, then revoke the one before.",
		Example: "  chaintrail keys rotate\n  chaintrail keys revoke audit.example.com+1a2b3c4d",
		Args:    cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			return a.withKeys(func(keys *ledger.Keyring) error { return a.printKey(keys.Revoke(args[0])) })
		},
	}
}

func (a *app) printKey(key ledger.Key, err error) error {
	if err == nil {
		fmt.Fprintf(a.out, "%s %s\n", key.ID, key.State)
	}
	return err
}

func newKeysListCmd(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List all keys that ever signed",
		Args:  noArgs,
		RunE: func(*cobra.Command, []string) error {
			return a.withKeys(func(keys *ledger.Keyring) error {
				list, err := keys.Keys()
				if err != nil {
					return err
				}
				return a.print(append([]ledger.Key{}, list...), func() error {
					t := newTable(a.out, "KEY", "STATE", "MADE", "ENDED")
					for _, k := range list {
						ended := ""
						if !k.Ended.IsZero() {
							ended = k.Ended.Format(time.RFC3339)
						}
						t.row(k.ID, string(k.State), k.Made.Format(time.RFC3339), ended)
					}
					return t.flush()
				})
			})
		},
	}
	a.outputFlag(cmd)
	return cmd
}

func newKeysPublicCmd(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "public",
		Short: "Print the public keys, one a line, for whoever verifies",
		Long:  "Prints what a verifier needs: keep it outside of the data. Revoked keys are left out.",
		Args:  noArgs,
		RunE: func(*cobra.Command, []string) error {
			return a.withKeys(func(keys *ledger.Keyring) error {
				list, err := keys.Keys()
				if err == nil && len(list) == 0 {
					err = ledger.ErrNoKey
				}
				for _, k := range list {
					if k.State != ledger.KeyRevoked {
						fmt.Fprintln(a.out, k.Public)
					}
				}
				return err
			})
		},
	}
}
