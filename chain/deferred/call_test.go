package deferred

import (
	"context"
	"testing"
	"uuid"

	"github.com/chaintrail/chaintrail/chain"
	"github.com/chaintrail/chaintrail/schemas"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

func FuzzCall(f *testing.F) {
	f.Add([]byte(`{"a":1}`), []byte(`{"principal":"p","claims":{"a":"b"},"method":"m"}`), "payload.before", []byte(`{"recorded":true}`))
	f.Add([]byte(`"\ud800"`), []byte(`{"session_id":"\u0000"}`), "\xff", []byte(`{"recorded":true,"info":{"a":"\ud800"}}`))
	f.Fuzz(func(t *testing.T, payload, about []byte, input string, answer []byte) {
		e := schemas.Event{
			ID: uuid.NewV7(), Correlation: &schemas.Correlation{Exchange: uuid.NewV7()},
			Operation: &schemas.Operation{Event: "other", Phase: schemas.PhaseRequest},
		}
		inv := schemas.Invocation{ID: "i", Input: input}
		c, err := newCall(&e, &inv, payload, about)
		if err != nil {
			return
		}
		host := hostFunc(func(_ context.Context, _ string, params jsonx.Value) (jsonx.Value, error) {
			if _, err := jsonx.Verify(params, 0); err != nil {
				t.Errorf("params are no JSON: %v\n%s", err, params)
			}
			return answer, nil
		})
		got := chain.NewInterceptor(sink, nil, host).Invoke(t.Context(), c.input, c.metaFor(1))
		res := result{inv: inv}
		res.take(&got, 1)
		for _, item := range res.record(&e).Items {
			if _, err := jsonx.Verify(item.Data, 0); err != nil {
				t.Errorf("the detail is no JSON: %v\n%s", err, item.Data)
			}
		}
	})
}
