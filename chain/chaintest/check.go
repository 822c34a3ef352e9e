package chaintest

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/chaintrail/chaintrail/chain/interceptor"
	"github.com/chaintrail/chaintrail/chain/wire"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

// Total is how many fixtures the suite has.
const Total = 24

// Request returns the method and params of a list or invoke step; params are nil where there are none.
func (s *Step) Request() (method string, params jsonx.Value) {
	switch {
	case s.Op != "list":
		return interceptor.MethodInvoke, s.Params
	case s.Event == "":
		return interceptor.MethodList, nil
	}
	return interceptor.MethodList, jsonx.Value(`{"event":"` + s.Event + `"}`)
}

// CheckAnswer compares what a server answered to a list or invoke step with what the step expects.
func (f *Fixture) CheckAnswer(step *Step, result jsonx.Value, err error) error {
	if code := step.Expect.ErrorCode; code != 0 {
		if e, ok := errors.AsType[*wire.RPCError](err); !ok || e.Code != code {
			return fmt.Errorf("error is %w, want code %d", err, code)
		}
		return nil
	}
	if err != nil {
		return err
	}
	// What protocol 2026-07-28 adds to every result is not the suite's matter.
	loose := *f
	loose.Volatile = append([]string{"resultType", "ttlMs", "cacheScope", "_meta"}, f.Volatile...)
	got, err := loose.Canonical(result)
	if err != nil {
		return err
	}
	if got != step.Expect.Canonical {
		return fmt.Errorf("result is %s, want %s", got, step.Expect.Canonical)
	}
	return nil
}

// CheckApply compares what became of an apply step with what it expects. Payload is what went on: it
// counts only where the step says something about it.
func (f *Fixture) CheckApply(step *Step, denied bool, payload jsonx.Value) error {
	decision := "allow"
	if denied {
		decision = "deny"
	}
	if decision != step.Expect.Decision {
		return fmt.Errorf("decision is %s, want %s", decision, step.Expect.Decision)
	}
	e := &step.Expect
	if e.FinalPayloadCanonical == "" && len(e.Forbids) == 0 && len(e.Requires) == 0 {
		return nil
	}
	final, err := f.Canonical(payload)
	if err != nil {
		return err
	}
	if want := e.FinalPayloadCanonical; want != "" && final != want {
		return fmt.Errorf("final payload is %s, want %s", final, want)
	}
	for _, text := range e.Forbids {
		if strings.Contains(final, text) {
			return fmt.Errorf("final payload %s holds %q", final, text)
		}
	}
	for _, text := range e.Requires {
		if !strings.Contains(final, text) {
			return fmt.Errorf("final payload %s lacks %q", final, text)
		}
	}
	return nil
}

// Report logs how many cases of a suite passed in a mode, in the form that `make conformance` counts,
// and fails the test unless all did.
func Report(tb testing.TB, suite, mode string, passed, total int) {
	tb.Helper()
	tb.Logf("conformance: %s | %s | %d of %d", suite, mode, passed, total)
	if passed != total || total == 0 {
		tb.Errorf("%s, %s: %d of %d passed", suite, mode, passed, total)
	}
}

// Suite names the fixtures in a [Report].
const Suite = "interceptor fixtures"
