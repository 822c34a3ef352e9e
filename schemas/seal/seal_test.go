package seal

import (
	"crypto/sha256"
	"strings"
	"testing"
	"uuid"
)

func TestEventHashIsTheMerkleLeaf(t *testing.T) {
	t.Parallel()
	// RFC 6962 section 2.1: the leaf hash of the empty entry.
	if got, want := Event(nil).String(), "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestCommitmentHidesAndSeparates(t *testing.T) {
	t.Parallel()
	salt := NewSalt()
	base := Commit(DomainTrue, salt, []byte("yes"))
	for name, other := range map[string]Hash{
		"another domain": Commit(DomainKept, salt, []byte("yes")),
		"another salt":   Commit(DomainTrue, NewSalt(), []byte("yes")),
		"another value":  Commit(DomainTrue, salt, []byte("no")),
		"no salt":        sha256.Sum256([]byte("yes")),
	} {
		if other == base {
			t.Errorf("%s gives the same commitment", name)
		}
	}
	if again := Commit(DomainTrue, salt, []byte("yes")); again != base {
		t.Error("the same input gives another commitment")
	}
}

func TestPseudonym(t *testing.T) {
	t.Parallel()
	a, b := Key{1}, Key{2}
	if a.Pseudonym("principal", "") != "" {
		t.Error("nobody has a pseudonym")
	}
	p := a.Pseudonym("principal", "u-17")
	if len(p) != 32 || strings.Contains(string(p), "u-17") {
		t.Errorf("got %q", p)
	}
	if p == b.Pseudonym("principal", "u-17") || p == a.Pseudonym("session", "u-17") {
		t.Error("key and domain must separate")
	}
}

func TestTextForms(t *testing.T) {
	t.Parallel()
	salt := NewSalt()
	text, _ := salt.MarshalText()
	var back Salt
	if err := back.UnmarshalText(text); err != nil || back != salt {
		t.Errorf("salt came back as %v (%v)", back, err)
	}
	for _, bad := range []string{"", "AA", "!!!!", strings.Repeat("A", 44)} {
		if err := back.UnmarshalText([]byte(bad)); err == nil {
			t.Errorf("salt %q was accepted", bad)
		}
	}
	var h Hash
	for _, bad := range []string{"", "ab", strings.Repeat("z", 64), strings.Repeat("a", 65)} {
		if err := h.UnmarshalText([]byte(bad)); err == nil {
			t.Errorf("hash %q was accepted", bad)
		}
	}
}

func TestInvocationIDSeparatesItsParts(t *testing.T) {
	t.Parallel()
	id := uuid.NewV7()
	if InvocationID(id, "ab", "c", "") == InvocationID(id, "a", "bc", "") {
		t.Error("host and name run together")
	}
}
