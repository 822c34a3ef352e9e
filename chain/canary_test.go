package chain_test

import (
	"fmt"
	"testing"
	"uuid"

	"github.com/chaintrail/chaintrail/chain"
	"github.com/chaintrail/chaintrail/schemas"
)

// A session is always treated alike, whatever the phase; who is enforced at one percentage is so at a higher one, and
// the share is what was asked for.
func TestCanary(t *testing.T) {
	t.Parallel()
	s := &script{list: descriptor("v", "validation", ""), invoke: answers(map[string]string{"v": `{"valid":false,"severity":"error"}`})}
	planAt := func(e chain.Enforce, sample *float64) *chain.Plan {
		h := s.host()
		h.Overrides = map[string]chain.Override{"v": {Enforce: &e, Sample: sample}}
		return planOf(t, chain.Config{}, h)
	}
	lists := chain.Enforce{Tenants: []string{"acme-*"}, Tools: []string{"rm"}, Principals: []string{"eve"}}
	plans := []*chain.Plan{planAt(lists, nil), planAt(chain.Enforce{Percent: 20}, nil), planAt(chain.Enforce{Percent: 60}, nil), planAt(chain.Enforce{Percent: 100}, nil)}
	denied := make([]int, len(plans))
	const sessions = 2000
	for n := range sessions {
		before := false
		for i, plan := range plans {
			in := input("tools/call")
			in.Context.SessionID, in.Context.Principal.ID = fmt.Sprint("s", n), "bob"
			res := plan.Run(t.Context(), in)
			in.Phase, in.Direction, in.Interception = schemas.PhaseResponse, schemas.Receiving, uuid.NewV7()
			again := plan.Run(t.Context(), in)
			inv := res.Invocations[0]
			if (res.Denial == nil) != (again.Denial == nil) || (res.Denial == nil) != (inv.Mode == schemas.ModeAudit && inv.State == schemas.StateDeferred) || inv.ModeReason == "" {
				t.Fatalf("session %d at plan %d: %+v and %+v", n, i, res, again)
			}
			if before && res.Denial == nil {
				t.Fatalf("session %d is enforced at the lower percentage only", n)
			}
			if before = res.Denial != nil; before {
				denied[i]++
			}
		}
	}
	for i, want := range []int{0, 20, 60, 100} {
		if got := denied[i] * 100 / sessions; got < want-4 || got > want+4 {
			t.Errorf("%d%% are enforced, want %d%%", got, want)
		}
	}
	for want, change := range map[string]func(*chain.Input){
		"canary_tenant":    func(in *chain.Input) { in.Tenant = "acme-1" },
		"canary_tool":      func(in *chain.Input) { in.Target = "rm" },
		"canary_principal": func(in *chain.Input) { in.Context.Principal.ID = "eve" },
	} {
		in := input("tools/call")
		change(&in)
		if res := plans[0].Run(t.Context(), in); res.Denial == nil || res.Invocations[0].ModeReason != want {
			t.Errorf("%s: %+v", want, res)
		}
	}
	sampled := 0
	plan := planAt(chain.Enforce{}, new(25.0))
	for range sessions {
		in := input("tools/call")
		in.Interception = uuid.NewV7()
		if inv := plan.Run(t.Context(), in).Invocations[0]; inv.State == schemas.StateDeferred {
			sampled++
		} else if inv.SkipReason != schemas.SkipSampling {
			t.Fatalf("not in the sample: %+v", inv)
		}
	}
	if got := sampled * 100 / sessions; got < 21 || got > 29 {
		t.Errorf("%d%% are in the sample, want 25%%", got)
	}
}
