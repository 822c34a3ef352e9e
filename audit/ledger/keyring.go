package ledger

import (
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gofrs/flock"
	"github.com/google/renameio/v2"
	"golang.org/x/mod/sumdb/note"

	"github.com/chaintrail/chaintrail/internal/keyfile"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
	"github.com/chaintrail/chaintrail/schemas/seal"
)

var (
	// ErrNoKey is returned when a ledger has no key that signs, or none of the given name.
	ErrNoKey = errors.New("there is no such key")
	// ErrKeyExists is returned when a first key is to be made and there is one already; rotate it instead.
	ErrKeyExists = errors.New("there is a key already")
	// ErrLastKey is returned when the only key that signs is to be revoked; rotate first.
	ErrLastKey = errors.New("it is the only key that signs")
)

// KeyState is what a key may still do.
type KeyState string

// The states of a key, in their order.
const (
	KeySigning  KeyState = "signing"
	KeyRetiring KeyState = "retiring" // signs beside its successor until one head carries both
	KeyRetired  KeyState = "retired"  // its private half is gone; what it signed stays valid
	KeyRevoked  KeyState = "revoked"  // what it signed after that time proves nothing
)

// Key is what may be known of a key.
type Key struct {
	ID     string    `json:"id"`     // name+hash, as in the signatures of a note
	Public string    `json:"public"` // name+hash+key: what [NewVerifier] reads
	State  KeyState  `json:"state"`
	Made   time.Time `json:"made"`
	Ended  time.Time `json:"ended,omitzero"` // when it was retired or revoked
}

// Act is something that was done with a key and is to be recorded as an event.
type Act struct {
	Action string    `json:"action"` // "key_made", "key_rotated", "key_retired" or "key_revoked"
	Key    string    `json:"key"`    // id
	Digest seal.Hash `json:"digest"` // SHA-256 of the public key's text
	Time   time.Time `json:"time"`
}

// ring is the file of a [Keyring].
type ring struct {
	Name string `json:"name"` // of the ledger and of all its keys
	Keys []Key  `json:"keys"`
	Acts []Act  `json:"acts,omitempty"` // done and not recorded yet: the oldest first
}

// Keyring keeps the Ed25519 keys of a ledger in a folder: seal.json tells of all of them, seal-<hash>.key holds the private
// half of one that signs, encrypted if there is a passphrase. Each change is one replaced file that also holds what is to be
// recorded about it, so that none stays unrecorded. Several processes may use one folder, and goroutines one Keyring.
type Keyring struct {
	dir        string
	passphrase string

	mu      sync.Mutex             // covers signers
	signers map[string]note.Signer // opened private halves by id
}

// NewKeyring uses the keys of a folder. An empty passphrase keeps new private keys as they are, in files with mode 0600.
func NewKeyring(dir, passphrase string) *Keyring {
	return &Keyring{dir: dir, passphrase: passphrase, signers: map[string]note.Signer{}}
}

// Dir is the folder of the keys.
func (k *Keyring) Dir() string { return k.dir }

// Name of the ledger; fs.ErrNotExist before its first key.
func (k *Keyring) Name() (string, error) {
	r, err := k.load()
	if err == nil && len(r.Keys) == 0 {
		err = fmt.Errorf("%s: %w", k.path(), fs.ErrNotExist)
	}
	return r.Name, err
}

// Keys tells of all keys, oldest first; none is no error.
func (k *Keyring) Keys() ([]Key, error) {
	r, err := k.load()
	return r.Keys, err
}

// Make makes the first key of a ledger, which gets this name for ever: 1 to 200 characters, neither spaces nor plus signs.
func (k *Keyring) Make(name string) (made Key, err error) {
	err = k.update(func(r *ring) error {
		if len(r.Keys) > 0 {
			return fmt.Errorf("%w: %s", ErrKeyExists, r.Keys[len(r.Keys)-1].ID)
		}
		r.Name = name
		made, err = k.add(r, "key_made")
		return err
	})
	return made, err
}

// Rotate makes another key. Those before it sign on until one head carries both; then their private halves are removed.
func (k *Keyring) Rotate() (made Key, err error) {
	err = k.update(func(r *ring) error {
		if len(r.Keys) == 0 {
			return ErrNoKey
		}
		for i := range r.Keys {
			if r.Keys[i].State == KeySigning {
				r.Keys[i].State = KeyRetiring
			}
		}
		made, err = k.add(r, "key_rotated")
		return err
	})
	return made, err
}

// Revoke ends a key at once and for good; what it signed before stays valid. Its private half is removed.
func (k *Keyring) Revoke(id string) (revoked Key, err error) {
	err = k.update(func(r *ring) error {
		i := slices.IndexFunc(r.Keys, func(key Key) bool { return key.ID == id })
		switch {
		case i < 0:
			return fmt.Errorf("%w: %.200q", ErrNoKey, id)
		case r.Keys[i].State == KeyRevoked:
			revoked = r.Keys[i]
			return nil
		case r.Keys[i].State == KeySigning:
			return fmt.Errorf("%w: %s", ErrLastKey, id)
		}
		r.end(i, KeyRevoked, "key_revoked")
		revoked = r.Keys[i]
		return nil
	})
	return revoked, err
}

// Signers open the keys that sign the next head.
func (k *Keyring) Signers() ([]note.Signer, error) {
	r, err := k.load()
	if err != nil {
		return nil, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	var out []note.Signer
	for _, key := range r.Keys {
		if key.State != KeySigning && key.State != KeyRetiring {
			delete(k.signers, key.ID)
			continue
		}
		if k.signers[key.ID] == nil {
			if k.signers[key.ID], err = k.open(key.ID); err != nil {
				return nil, err
			}
		}
		out = append(out, k.signers[key.ID])
	}
	if len(out) == 0 {
		return nil, ErrNoKey
	}
	return out, nil
}

// Verifiers are the public halves of all keys that ever signed, so that the newest head is recognized whatever became of
// its key since.
func (k *Keyring) Verifiers() ([]note.Verifier, error) {
	r, err := k.load()
	if err != nil {
		return nil, err
	}
	out := make([]note.Verifier, len(r.Keys))
	for i, key := range r.Keys {
		if out[i], err = NewVerifier(key.Public); err != nil {
			return nil, fmt.Errorf("%s: %s: %w", k.path(), key.ID, err)
		}
	}
	return out, nil
}

// Signed tells that a head is out with these signatures: a key that one of its successors stands beside is retired.
func (k *Keyring) Signed(by []note.Signer) error {
	carried := func(key Key) bool {
		return slices.ContainsFunc(by, func(s note.Signer) bool { return keyID(s) == key.ID })
	}
	done := func(r *ring) []int {
		if !slices.ContainsFunc(r.Keys, func(key Key) bool { return key.State == KeySigning && carried(key) }) {
			return nil
		}
		var out []int
		for i, key := range r.Keys {
			if key.State == KeyRetiring && carried(key) {
				out = append(out, i)
			}
		}
		return out
	}
	if r, err := k.load(); err != nil || len(done(&r)) == 0 {
		return err
	}
	return k.update(func(r *ring) error {
		for _, i := range done(r) {
			r.end(i, KeyRetired, "key_retired")
		}
		return nil
	})
}

// Acts are what was done and is not recorded yet, oldest first.
func (k *Keyring) Acts() ([]Act, error) {
	r, err := k.load()
	return r.Acts, err
}

// Recorded takes the oldest act off the list, if it is this one.
func (k *Keyring) Recorded(act Act) error {
	return k.update(func(r *ring) error {
		if len(r.Acts) > 0 && r.Acts[0] == act {
			r.Acts = r.Acts[1:]
		}
		return nil
	})
}

func (r *ring) end(i int, state KeyState, action string) {
	r.Keys[i].State, r.Keys[i].Ended = state, time.Now().UTC()
	r.act(action, r.Keys[i], r.Keys[i].Ended)
}

func (r *ring) act(action string, key Key, at time.Time) {
	r.Acts = append(r.Acts, Act{action, key.ID, sha256.Sum256([]byte(key.Public)), at})
}

func (k *Keyring) add(r *ring, action string) (Key, error) {
	if len(r.Name) == 0 || len(r.Name) > 200 || strings.ContainsAny(r.Name, "+ \t\r\n") {
		return Key{}, fmt.Errorf("%w: a name has 1 to 200 characters, neither spaces nor plus signs: %.250q", ErrKey, r.Name)
	}
	private, public, err := note.GenerateKey(rand.Reader, r.Name)
	if err != nil {
		return Key{}, fmt.Errorf("%w: %w", ErrKey, err)
	}
	id := strings.Join(strings.SplitN(public, "+", 3)[:2], "+") // base64 may have a plus sign too
	text, err := lock(private, id, k.passphrase)
	if err == nil {
		err = keyfile.Create(k.privatePath(id), text+"\n")
	}
	if err != nil {
		return Key{}, err
	}
	key := Key{ID: id, Public: public, State: KeySigning, Made: time.Now().UTC()}
	r.Keys = append(r.Keys, key)
	r.act(action, key, key.Made)
	return key, nil
}

func (k *Keyring) open(id string) (note.Signer, error) {
	text, err := keyfile.Read(k.privatePath(id))
	if err != nil {
		return nil, fmt.Errorf("key %s: %w", id, err)
	}
	private, err := unlock(text, id, k.passphrase)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", k.privatePath(id), err)
	}
	signer, err := note.NewSigner(private)
	if err != nil || keyID(signer) != id {
		return nil, fmt.Errorf("%w: %s does not hold the private half of %s; restore it from a backup", ErrKey, k.privatePath(id), id)
	}
	return signer, nil
}

func keyID(s note.Signer) string { return fmt.Sprintf("%s+%08x", s.Name(), s.KeyHash()) }

func (k *Keyring) path() string { return filepath.Join(k.dir, "seal.json") }

func (k *Keyring) privatePath(id string) string {
	return filepath.Join(k.dir, "seal-"+id[strings.LastIndexByte(id, '+')+1:]+".key")
}

func (k *Keyring) load() (ring, error) {
	var r ring
	text, err := keyfile.Read(k.path())
	if errors.Is(err, fs.ErrNotExist) {
		return r, nil
	}
	if err != nil {
		return r, err
	}
	if err := jsonx.UnmarshalStrict([]byte(text), &r); err != nil {
		return r, fmt.Errorf("%s is damaged (%w): restore it from a backup", k.path(), err)
	}
	for _, key := range r.Keys {
		if !strings.Contains(key.ID, "+") {
			return r, fmt.Errorf("%s is damaged (key %.100q): restore it from a backup", k.path(), key.ID)
		}
	}
	return r, nil
}

// update replaces the file; private halves that no key needs any more go afterwards.
func (k *Keyring) update(change func(*ring) error) error {
	if err := os.MkdirAll(k.dir, 0o700); err != nil {
		return fmt.Errorf("make key directory: %w", err)
	}
	guard := flock.New(filepath.Join(k.dir, ".seal.lock"))
	if err := guard.Lock(); err != nil {
		return fmt.Errorf("lock the keys: %w", err)
	}
	defer guard.Unlock() //nolint:errcheck // the file is closed: nothing is left to be done
	r, err := k.load()
	if err != nil {
		return err
	}
	if err := change(&r); err != nil {
		return err
	}
	text, err := jsonx.MarshalIndent(&r)
	if err != nil {
		return fmt.Errorf("keys: %w", err)
	}
	if err := renameio.WriteFile(k.path(), append(text, '\n'), 0o600); err != nil {
		return fmt.Errorf("keys: %w", err)
	}
	if err := syncDir(k.dir); err != nil {
		return err
	}
	for _, key := range r.Keys {
		if key.State != KeyRetired && key.State != KeyRevoked {
			continue
		}
		if err := os.Remove(k.privatePath(key.ID)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove the private half of %s: %w", key.ID, err)
		}
	}
	return nil
}
