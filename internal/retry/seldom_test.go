package retry_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chaintrail/chaintrail/internal/retry"
)

func TestSeldomSaysAnOutageOnceInAWhile(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		said := 0
		policy := retry.Policy{
			Initial: time.Second, Max: time.Second, MaxElapsed: 100 * time.Second,
			Notify: retry.Seldom(func(error, int, time.Duration) { said++ }),
		}
		away := errors.New("away")
		if err := retry.Do(t.Context(), policy, func(context.Context) error { return away }); !errors.Is(err, away) {
			t.Fatal(err)
		}
		if said != 4 {
			t.Errorf("100 s of tries made %d notes, want 4", said)
		}
	})
}
