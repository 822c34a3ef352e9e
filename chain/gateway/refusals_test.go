package gateway

import (
	"testing"
	"time"
)

func TestRefusalsAreSaidSeldomAndCountedAll(t *testing.T) {
	t.Parallel()
	var r refusals
	now := time.Unix(1, 0)
	if n, say := r.note(now); !say || n != 1 {
		t.Errorf("the first: %d, %t", n, say)
	}
	for i := range 1000 {
		if _, say := r.note(now.Add(time.Duration(i) * time.Millisecond)); say {
			t.Fatal("said again within the interval")
		}
	}
	if n, say := r.note(now.Add(refusalsEvery)); !say || n != 1001 {
		t.Errorf("after the interval: %d, %t, want 1001 said", n, say)
	}
}
