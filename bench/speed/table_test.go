package main

import (
	"slices"
	"testing"
	"time"

	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

func TestNumber(t *testing.T) {
	t.Parallel()
	for v, want := range map[float64]string{5: "5", 2.005: "2.00", 14.96: "15.0", 123.4: "123", 19999.6: "20,000", 1234567: "1,234,567"} {
		if got := number(v); got != want {
			t.Errorf("number(%v) = %q, want %q", v, got, want)
		}
	}
}

func TestVerdicts(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		row  row
		want verdict
	}{
		{atMost("", "", 2, 2, "×"), ok},
		{atMost("", "", 2.01, 2, "×"), missed},
		{atLeast("", "", 20_000, 20_000, ""), ok},
		{atLeast("", "", 19_999, 20_000, ""), missed},
		{atMost("", "", samples(nil).p50(), 2, ""), missed}, // nothing measured is no success
	} {
		if c.row.verdict != c.want {
			t.Errorf("%s against %s is %q, want %q", c.row.measured, c.row.bound, c.row.verdict, c.want)
		}
	}
}

func TestPercentiles(t *testing.T) {
	t.Parallel()
	var s samples
	for i := range 100 {
		s = append(s, time.Duration(100-i)*time.Microsecond)
	}
	if got := []float64{s.p(0), s.p(10), s.p50(), s.p(100)}; !slices.Equal(got, []float64{1, 11, 51, 100}) {
		t.Errorf("percentiles are %v", got)
	}
}

// A payload of the wrong size would make every figure another one.
func TestPayloadsHaveTheirSize(t *testing.T) {
	t.Parallel()
	for _, n := range []int{payloadBytes, payloadBytes + 1, large} {
		for name, payload := range map[string]jsonx.Value{"params": callParams(n), "result": callResult(n)} {
			if len(payload) != n {
				t.Errorf("%s of %d bytes have %d", name, n, len(payload))
			}
			if traits, err := jsonx.Verify(payload, 0); err != nil || traits != (jsonx.Traits{}) {
				t.Errorf("%s of %d bytes: %+v, %v", name, n, traits, err)
			}
		}
	}
}
