package detect

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestAccountsAndPhones(t *testing.T) {
	t.Parallel()
	d := newTest(t, Config{})
	for _, c := range []struct{ name, in, want string }{
		{"iban", `{"to":"DE89370400440532013000"}`, `{"to":"[redacted:iban]"}`},
		{"iban in groups", "pay GB82 WEST 1234 5698 7654 32 today", "pay [redacted:iban] today"},
		{"iban with dashes", "NO93-8601-1117-947.", "[redacted:iban]."},
		{"shortest and longest", "NO9386011117947 MT84MALT011000012345MTLCAST001S", "[redacted:iban] [redacted:iban]"},
		{"wrong check digits", "DE88370400440532013000", "DE88370400440532013000"},
		{"a digit too many", "DE893704004405320130001", "DE893704004405320130001"},
		{"a digit too few", "DE8937040044053201300", "DE8937040044053201300"},
		{"no such country", "XX89370400440532013000", "XX89370400440532013000"},
		{"part of a word", "ADE89370400440532013000", "ADE89370400440532013000"},
		{"at the very end", "DE8", "DE8"},
		{"phone", "call +49 30 901820 or +1 (650) 555-0100", "call [redacted:phone] or [redacted:phone]"},
		{"phone as a value", `{"tel":"+4930901820","n":1}`, `{"tel":"[redacted:phone]","n":1}`},
		{"north american", "650-555-0100, (650) 555-0100 and (650)555-0100", "[redacted:phone], [redacted:phone] and [redacted:phone]"},
		{"too short", "+1 650 555", "+1 650 555"},
		{"too long", "+1234567890123456", "+1234567890123456"},
		{"sum", "a+12345678 or 1+12345678", "a+12345678 or 1+12345678"},
		{"no area code", "123-456-7890 and 650-155-0100x", "123-456-7890 and 650-155-0100x"},
		{"dates and ids", "2026-01-01 550e8400-e29b-41d4-a716-446655440000 555-0100", "2026-01-01 550e8400-e29b-41d4-a716-446655440000 555-0100"},
	} {
		if diff := cmp.Diff(string(d.Redact([]byte(c.in))), c.want); diff != "" {
			t.Errorf("%s differs (-got +want):\n%s", c.name, diff)
		}
	}
}

func TestFindingsNameThePlace(t *testing.T) {
	t.Parallel()
	d := newTest(t, Config{})
	in := `{"a":"x\n` + github + `","password":"hunter2","to":["ada@example.org"]}`
	var got []string
	for _, f := range d.Findings([]byte(in)) {
		got = append(got, string(f.Kind)+" "+in[f.Start:f.End])
	}
	want := []string{"github_token " + github, "secret hunter2", "email ada@example.org"}
	if diff := cmp.Diff(got, want); diff != "" {
		t.Errorf("findings differ (-got +want):\n%s", diff)
	}
	if d.SecretName("path") || !d.SecretName("api-key") || d.Without(KindByName).SecretName("api-key") {
		t.Error("the names of secrets are judged wrongly")
	}
}

// Findings are in order and apart, and are none exactly where Find replaces nothing.
func FuzzFindings(f *testing.F) {
	for _, seed := range []string{`{"password":"x y","iban":"DE89370400440532013000"}`, "+49 30 901820 650-555-0100", "GB82 WEST 1234 5698 7654 32", github} {
		f.Add([]byte(seed))
	}
	d := newTest(f, Config{})
	f.Fuzz(func(t *testing.T, in []byte) {
		found := d.Findings(in)
		last := 0
		for _, h := range found {
			if h.Start < last || h.End <= h.Start || h.End > len(in) {
				t.Fatalf("finding %+v is out of place in %q", h, in)
			}
			last = h.End
		}
		if _, n := d.Find(in); n > 0 != (len(found) > 0) {
			t.Errorf("%d findings, but %d replaced in %q", len(found), n, in)
		}
	})
}

func TestKindsAreParted(t *testing.T) {
	t.Parallel()
	if got, want := len(SecretKinds())+len(PersonalKinds()), len(Kinds()); got != want {
		t.Errorf("%d kinds are secret or personal, of %d", got, want)
	}
	if !isMarker([]byte(Marker(KindIBAN))) || strings.Contains(Marker(KindPhone), " ") {
		t.Error("a marker is not known as one")
	}
}
