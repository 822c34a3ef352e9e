package bus_test

import (
	"errors"
	"regexp"
	"strings"
	"testing"
	"uuid"

	"pgregory.net/rapid"

	"github.com/chaintrail/chaintrail/bus"
	"github.com/chaintrail/chaintrail/schemas"
)

func TestSubject(t *testing.T) {
	t.Parallel()
	writer := uuid.MustParse("01890a5d-ac96-774b-bcce-b302099a8057")
	for _, test := range []struct {
		name    string
		subject bus.Subject
		want    string
	}{
		{"event", bus.Subject{Tenant: "acme", Writer: writer, Kind: schemas.KindRequest}, "chaintrail.v1.0.acme." + writer.String() + ".request"},
		{"unset tenant", bus.Subject{Shard: 12, Writer: writer, Kind: schemas.KindPlan}, "chaintrail.v1.12.default." + writer.String() + ".plan"},
		{"open item", bus.Subject{Tenant: "Acme-Co.*", Writer: writer, Class: bus.ClassTransient}, "chaintrail-open.v1.0.-41cme---43o-2e-2a." + writer.String() + ".transient"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got := test.subject.String()
			if got != test.want {
				t.Errorf("subject is %q, want %q", got, test.want)
			}
			back, err := bus.ParseSubject(got)
			if test.subject.Tenant == "" {
				test.subject.Tenant = bus.DefaultTenant
			}
			if err != nil || back != test.subject {
				t.Errorf("parsed back it is %+v (%v), want %+v", back, err, test.subject)
			}
		})
	}
}

func TestTokenIsInjective(t *testing.T) {
	t.Parallel()
	allowed := regexp.MustCompile(`^[a-z0-9-]+$`)
	rapid.Check(t, func(t *rapid.T) {
		s := string(rapid.SliceOf(rapid.Byte()).Draw(t, "bytes"))
		token := bus.EncodeToken(s)
		if !allowed.MatchString(token) {
			t.Fatalf("token %q of %q has characters beyond [a-z0-9-]", token, s)
		}
		back, err := bus.DecodeToken(token)
		if err != nil || back != s {
			t.Fatalf("token %q decodes to %q (%v), want %q", token, back, err, s)
		}
	})
}

func FuzzParseSubject(f *testing.F) {
	for _, s := range []string{
		"chaintrail.v1.0.default.01890a5d-ac96-774b-bcce-b302099a8057.request",
		"chaintrail-open.v1.3.-2a.01890a5d-ac96-774b-bcce-b302099a8057.kept",
		"chaintrail.v1.0.a-.x.y", "chaintrail.v1.00.a.b.c", "", "...", "chaintrail.v1.0.-2.w.-",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		parsed, err := bus.ParseSubject(s)
		if err != nil {
			if !errors.Is(err, bus.ErrSubject) {
				t.Errorf("the error for %q has another class: %v", s, err)
			}
			return
		}
		// "-", the empty tenant, is never sent: an unset one is the default tenant.
		if got := parsed.String(); got != s && !strings.Contains(s, ".-.") {
			t.Errorf("%q is accepted, but would be sent as %q", s, got)
		}
	})
}
