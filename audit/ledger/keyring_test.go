package ledger_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/chaintrail/chaintrail/audit/ledger"
	"github.com/chaintrail/chaintrail/internal/keyfile"
	"github.com/chaintrail/chaintrail/schemas/seal"
)

func states(t *testing.T, k *ledger.Keyring) (out []ledger.KeyState) {
	t.Helper()
	keys, err := k.Keys()
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range keys {
		out = append(out, key.State)
	}
	return out
}

func made(t *testing.T, key ledger.Key, err error) ledger.Key {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func signedBy(t *testing.T, k *ledger.Keyring) []byte {
	t.Helper()
	signers, err := k.Signers()
	if err != nil {
		t.Fatal(err)
	}
	c := ledger.Checkpoint{Origin: "audit.example/0", Size: 1, Root: seal.Event([]byte("a")), Time: time.Now(), Clock: "unknown", Stream: "S", Position: 1}
	text, err := c.Sign(signers...)
	if err != nil {
		t.Fatal(err)
	}
	if err := k.Signed(signers); err != nil {
		t.Fatal(err)
	}
	return text
}

func TestKeysRotateThroughOneHeadOfBoth(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	k, other := ledger.NewKeyring(dir, ""), ledger.NewKeyring(dir, "") // as a command beside the process that seals
	if _, err := k.Signers(); !errors.Is(err, ledger.ErrNoKey) {
		t.Errorf("no key signs with %v, want %v", err, ledger.ErrNoKey)
	}
	if _, err := k.Rotate(); !errors.Is(err, ledger.ErrNoKey) {
		t.Errorf("no key is rotated with %v, want %v", err, ledger.ErrNoKey)
	}
	key, err := k.Make("audit.example")
	first := made(t, key, err)
	if _, err := other.Make("audit.example"); !errors.Is(err, ledger.ErrKeyExists) {
		t.Errorf("a second first key gave %v, want %v", err, ledger.ErrKeyExists)
	}
	if _, err := other.Revoke(first.ID); !errors.Is(err, ledger.ErrLastKey) {
		t.Errorf("the last key was revoked with %v, want %v", err, ledger.ErrLastKey)
	}
	if n := strings.Count(string(signedBy(t, k)), "— "); n != 1 {
		t.Errorf("%d signatures, want 1", n)
	}
	key, err = other.Rotate()
	second := made(t, key, err)
	if diff := cmp.Diff(states(t, k), []ledger.KeyState{ledger.KeyRetiring, ledger.KeySigning}); diff != "" {
		t.Errorf("states after rotation (-got +want):\n%s", diff)
	}
	both := signedBy(t, k)
	for _, public := range []string{first.Public, second.Public} {
		v, err := ledger.NewVerifier(public)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := ledger.ReadCheckpoint(both, "", v); err != nil {
			t.Errorf("the head of both does not verify with %s: %v", public, err)
		}
	}
	if diff := cmp.Diff(states(t, k), []ledger.KeyState{ledger.KeyRetired, ledger.KeySigning}); diff != "" {
		t.Errorf("states after a head of both (-got +want):\n%s", diff)
	}
	if n := strings.Count(string(signedBy(t, k)), "— "); n != 1 {
		t.Errorf("%d signatures after the rotation, want 1", n)
	}
	privates, err := filepath.Glob(filepath.Join(dir, "seal-*.key"))
	if err != nil || len(privates) != 1 {
		t.Errorf("private halves left: %v (%v), want one", privates, err)
	}
	if v, err := k.Verifiers(); err != nil || len(v) != 2 {
		t.Errorf("%d verifiers (%v), want 2", len(v), err)
	}
}

func TestRevokedKeySignsNothingMore(t *testing.T) {
	t.Parallel()
	k := ledger.NewKeyring(t.TempDir(), "")
	key, err := k.Make("audit.example")
	first := made(t, key, err)
	signedBy(t, k) // opened
	key, err = k.Rotate()
	made(t, key, err)
	key, err = ledger.NewKeyring(filepath.Dir(privatePath(t, k, first)), "").Revoke(first.ID)
	if revoked := made(t, key, err); revoked.Ended.IsZero() || revoked.State != ledger.KeyRevoked {
		t.Errorf("revoked as %+v", revoked)
	}
	if n := strings.Count(string(signedBy(t, k)), "— "); n != 1 {
		t.Errorf("%d signatures, want 1", n)
	}
	if _, err := os.Stat(privatePath(t, k, first)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the private half of a revoked key is still there (%v)", err)
	}
	// Each act is told once, in order.
	var actions []string
	acts, err := k.Acts()
	if err != nil {
		t.Fatal(err)
	}
	for _, act := range acts {
		actions = append(actions, act.Action)
		if err := errors.Join(k.Recorded(act), k.Recorded(act)); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(actions, []string{"key_made", "key_rotated", "key_revoked"}); diff != "" {
		t.Errorf("acts (-got +want):\n%s", diff)
	}
	if acts, err := k.Acts(); err != nil || len(acts) != 0 {
		t.Errorf("acts left: %v (%v)", acts, err)
	}
}

func privatePath(t *testing.T, k *ledger.Keyring, key ledger.Key) string {
	t.Helper()
	return filepath.Join(k.Dir(), "seal-"+key.ID[strings.LastIndexByte(key.ID, '+')+1:]+".key")
}

func TestPrivateKeysAreKept(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		made, used string // passphrases
		damage     func(path string) error
		want       error
	}{
		"in clear":               {},
		"encrypted":              {made: "correct horse", used: "correct horse"},
		"made in clear":          {used: "correct horse"},
		"with a wrong phrase":    {made: "correct horse", used: "battery staple", want: ledger.ErrPassphrase},
		"without a phrase":       {made: "correct horse", want: ledger.ErrPassphrase},
		"readable by others":     {damage: func(path string) error { return os.Chmod(path, 0o644) }, want: keyfile.ErrPermissions},
		"cut":                    {damage: func(path string) error { return os.Truncate(path, 20) }, want: ledger.ErrKey},
		"cut and encrypted":      {made: "a", used: "a", damage: func(path string) error { return os.Truncate(path, 50) }, want: ledger.ErrKey},
		"damaged and encrypted":  {made: "a", used: "a", damage: flip, want: ledger.ErrPassphrase},
		"replaced by an old one": {damage: func(path string) error { return os.WriteFile(path, []byte("PRIVATE+KEY+a+b+c"), 0o600) }, want: ledger.ErrKey},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			key, err := ledger.NewKeyring(dir, test.made).Make("audit.example")
			path := privatePath(t, ledger.NewKeyring(dir, ""), made(t, key, err))
			text, err := os.ReadFile(path)
			if err != nil || strings.HasPrefix(string(text), "PRIVATE") != (test.made == "") {
				t.Errorf("the private half is kept as %.10q (%v)", text, err)
			}
			if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("its mode is %v (%v)", info.Mode(), err)
			}
			if test.damage != nil {
				if err := test.damage(path); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := ledger.NewKeyring(dir, test.used).Signers(); !errors.Is(err, test.want) {
				t.Errorf("got %v, want %v", err, test.want)
			}
		})
	}
}

// flip changes the last byte of the ciphertext.
func flip(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	at := len(text) - 10
	if text[at] == 'A' {
		text[at] = 'B'
	} else {
		text[at] = 'A'
	}
	return os.WriteFile(path, text, 0o600)
}

func TestKeyNames(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"", "a b", "a+b", "a\nb", strings.Repeat("a", 201)} {
		if _, err := ledger.NewKeyring(t.TempDir(), "").Make(name); !errors.Is(err, ledger.ErrKey) {
			t.Errorf("name %.20q gave %v, want %v", name, err, ledger.ErrKey)
		}
	}
}

func TestDamagedKeyringIsSaid(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "{", `{"name":"a","keys":[{"id":"a"}]}`, `{"nome":"a"}`} {
		k := ledger.NewKeyring(t.TempDir(), "")
		if err := os.WriteFile(filepath.Join(k.Dir(), "seal.json"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := k.Signers(); err == nil || !strings.Contains(err.Error(), "seal.json is damaged") {
			t.Errorf("%q gave %v", text, err)
		}
		if _, err := k.Rotate(); err == nil {
			t.Errorf("%q was rotated over", text)
		}
	}
}
