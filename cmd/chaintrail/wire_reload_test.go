package main

import (
	"context"
	"crypto/sha256"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/chaintrail/chaintrail/chain/gateway"
	"github.com/chaintrail/chaintrail/cmd/chaintrail/config"
	"github.com/chaintrail/chaintrail/schemas"
	"github.com/chaintrail/chaintrail/schemas/seal"
)

// kept is a recorder that keeps what it is given.
type kept struct{ all []*schemas.Record }

func (k *kept) Record(_ context.Context, rec *schemas.Record) error {
	k.all = append(k.all, rec)
	return nil
}

func (k *kept) last() *schemas.Record { return k.all[len(k.all)-1] }

// TestReload: a configuration comes into force with a plan and an admin event, or is refused with an admin event that says
// why and names the place; then everything stays.
func TestReload(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "c.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const base = "backends:\n  - {name: one, url: \"http://127.0.0.1:1/\"}\n"
	write(base)
	log := slog.New(slog.DiscardHandler)
	rec := &kept{}
	n := &node{log: log, recorder: rec, keys: keys{pseudonym: seal.Key{1}}, reloadable: func() (config.Config, error) { return config.Load(file) }}
	var err error
	if n.cfg, err = n.reloadable(); err != nil {
		t.Fatal(err)
	}
	first, err := n.newForce(n.cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := first.set.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := first.run.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	n.force.Store(first)
	if n.gateway, err = gateway.New(gateway.Options{Recorder: rec, Backends: n.backends(n.cfg)}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	r := &reloads{node: n}

	for _, c := range []struct{ name, text, want string }{
		{"unknown key", base + "backendz: []\n", "c.yaml:3: "},
		{"not to be changed", base + "journal: {keep: 1h}\ngateway: {name: other}\n", "gateway.name, journal.keep changed: start the process anew"},
		{"server not there", base + "interceptors:\n  - {name: gone, command: [/nonexistent/guard]}\n", "gone"},
	} {
		write(c.text)
		before := n.force.Load()
		r.reload(ctx)
		last := rec.last()
		if last.Event.Admin == nil || last.Event.Admin.Action != actionConfigRefused || len(last.Items) != 1 || !strings.Contains(string(last.Items[0].Data), c.want) {
			t.Errorf("%s: got %+v with %d items, want a refusal that says %q", c.name, last.Event.Admin, len(last.Items), c.want)
		}
		if n.force.Load() != before {
			t.Errorf("%s: another configuration is in force", c.name)
		}
	}

	write(strings.Replace(base, "one", "two", 1) + "gateway: {deny: {as: result}}\n")
	r.reload(ctx)
	last := rec.last()
	if last.Event.Admin == nil || last.Event.Admin.Action != actionConfig || last.Event.Admin.Digest.IsZero() {
		t.Errorf("got %+v, want a configuration in force", last.Event.Admin)
	}
	if text, err := yaml.Marshal(n.config()); err != nil || last.Event.Admin.Digest == seal.Hash(sha256.Sum256(text)) ||
		last.Event.Admin.Digest != n.keys.pseudonym.Digest("config", text) {
		t.Errorf("the digest is not keyed (%v)", err)
	}
	if plan := rec.all[len(rec.all)-2].Event.Plan; plan == nil || plan.Server != "two" {
		t.Errorf("plan event %+v, want one of server two", plan)
	}
	if got := n.config().Gateway.Deny.As; got != "result" {
		t.Errorf("deny as %q, want result", got)
	}
	r.retired.Wait()
	if err := n.force.Load().run.Stop(ctx); err != nil {
		t.Error(err)
	}
	if err := n.gateway.Close(); err != nil {
		t.Error(err)
	}
}
