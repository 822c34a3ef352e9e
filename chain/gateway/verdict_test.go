package gateway

import (
	"testing"

	"github.com/chaintrail/chaintrail/chain"
	"github.com/chaintrail/chaintrail/chain/wire"
	"github.com/chaintrail/chaintrail/schemas"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

func TestVerdictOf(t *testing.T) {
	t.Parallel()
	denial := &chain.Denial{Interceptor: "x", Type: "validation", Code: wire.CodeInvalidParams}
	for _, c := range []struct {
		name string
		res  chain.Result
		want schemas.Outcome
	}{
		{"success", chain.Result{Status: schemas.StatusSuccess}, ""},
		{"no match", chain.Result{Status: schemas.StatusNotRun}, ""},
		{"blocked", chain.Result{Status: schemas.StatusValidationFailed, Denial: denial}, schemas.OutcomeDenied},
		{"given up while it ran", chain.Result{Status: schemas.StatusCancelled, Denial: denial}, schemas.OutcomeCancelled},
		{"failed without a reason", chain.Result{Status: schemas.StatusMutationFailed}, schemas.OutcomeDenied},
	} {
		if got := verdictOf(&c.res, nil); got.outcome != c.want {
			t.Errorf("%s: outcome %q, want %q", c.name, got.outcome, c.want)
		}
	}
}

// A mutator may give params to a request that came without.
func TestBodyMadeFromNothingIsRecorded(t *testing.T) {
	t.Parallel()
	var rec schemas.Record
	addBody(&rec, nil, &chain.Result{Modified: true, Payload: jsonx.Value(`{"a":1}`)}, 0)
	if len(rec.Items) != 1 || rec.Items[0].Role != schemas.RoleAfter || string(rec.Items[0].Data) != `{"a":1}` {
		t.Errorf("items are %+v", rec.Items)
	}
}
