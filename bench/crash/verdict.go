package main

import (
	"fmt"
	"io"
	"slices"

	"github.com/chaintrail/chaintrail/schemas"
)

// verdict counts what the tables lack or hold twice, against the oracle.
type verdict struct {
	executedUnrecorded int // the backend executed it, no request event has it
	answeredWithoutOK  int // the client got a result, no outcome "allowed" has it
	withoutOutcome     int // a request event without an outcome
	holes              int // missing seqs
	deferredMissing    int // handed over, but no final result
	executedTwice      int // the backend executed one token twice
	recordedTwice      int // one token in several exchanges
	outcomesTwice      int
	rowsTwice          int
	invocationsTwice   int
	forged             int
	misplaced          int // leaf numbers
	unsealed           int // stored, and not under the newest head
	otherRoot          int
	requests, events   int // for information; part of the comparison for quiet
}

func compare(st stored, executed map[string]int, a answers) verdict {
	v := verdict{holes: st.holes, rowsTwice: st.doubled, forged: st.forged, misplaced: st.misplaced, unsealed: st.unsealed, otherRoot: st.otherRoot, events: len(st.events)}
	for token, n := range executed {
		if n > 1 {
			v.executedTwice++
		}
		if len(st.exchangesOf[token]) == 0 {
			v.executedUnrecorded++
		}
	}
	for _, exchanges := range st.exchangesOf {
		if len(exchanges) > 1 {
			v.recordedTwice++
		}
	}
	for token := range a.answered {
		if !st.allowed(token) {
			v.answeredWithoutOK++
		}
	}
	v.exchanges(st)
	v.deferred(st)
	return v
}

func (st stored) allowed(token string) bool {
	for exchange := range st.exchangesOf[token] {
		if slices.Contains(st.outcomes[exchange], string(schemas.OutcomeAllowed)) {
			return true
		}
	}
	return false
}

func (v *verdict) exchanges(st stored) {
	for _, e := range st.events {
		if e.Kind != schemas.KindRequest || e.Correlation == nil {
			continue
		}
		v.requests++
		switch n := len(st.outcomes[e.Correlation.Exchange.String()]); {
		case n == 0:
			v.withoutOutcome++
		case n > 1:
			v.outcomesTwice++
		}
	}
}

// deferred checks that each invocation that was handed over has exactly one final result.
func (v *verdict) deferred(st stored) {
	for _, e := range st.events {
		if e.Kind != schemas.KindRequest && e.Kind != schemas.KindOutcome {
			continue
		}
		for _, inv := range e.Invocations {
			if inv.State == schemas.StateDeferred && st.invocations[inv.ID] == 0 {
				v.deferredMissing++
			}
		}
	}
	for _, n := range st.invocations {
		if n > 1 {
			v.invocationsTwice++
		}
	}
}

func (v verdict) lost() int {
	return v.executedUnrecorded + v.answeredWithoutOK + v.withoutOutcome + v.holes + v.deferredMissing
}

func (v verdict) duplicated() int {
	return v.executedTwice + v.recordedTwice + v.outcomesTwice + v.rowsTwice + v.invocationsTwice
}

func (v verdict) unverifiable() int { return v.misplaced + v.unsealed + v.otherRoot }

// clean also wants proof that there was something to lose.
func (v verdict) clean() bool {
	return v.lost() == 0 && v.duplicated() == 0 && v.forged == 0 && v.unverifiable() == 0 && v.requests > 0
}

func (v verdict) print(out io.Writer, faults map[string]int, executed map[string]int, a answers) {
	fmt.Fprint(out, "faults injected (SIGKILL):")
	for _, role := range roles() {
		fmt.Fprintf(out, " %s %d", role, faults[role])
	}
	fmt.Fprintf(out, "\ncalls executed by the backend %d, answered to clients %d, failed at clients %d\n", len(executed), len(a.answered), a.failed)
	fmt.Fprintf(out, "events stored %d, requests among them %d\n", v.events, v.requests)
	fmt.Fprintf(out, "  executed without a request event     %d\n", v.executedUnrecorded)
	fmt.Fprintf(out, "  answered without an allowed outcome  %d\n", v.answeredWithoutOK)
	fmt.Fprintf(out, "  requests without an outcome          %d\n", v.withoutOutcome)
	fmt.Fprintf(out, "  missing sequence numbers             %d\n", v.holes)
	fmt.Fprintf(out, "  deferred work without a result       %d\n", v.deferredMissing)
	fmt.Fprintf(out, "  executed, recorded, ended twice      %d, %d, %d\n", v.executedTwice, v.recordedTwice, v.outcomesTwice)
	fmt.Fprintf(out, "  rows, invocations twice              %d, %d\n", v.rowsTwice, v.invocationsTwice)
	fmt.Fprintf(out, "  hashes or links that do not hold     %d\n", v.forged)
	fmt.Fprintf(out, "  wrong leaf, not sealed, other root   %d, %d, %d\n", v.misplaced, v.unsealed, v.otherRoot)
	word := "clean"
	if !v.clean() {
		word = "NOT CLEAN"
	}
	fmt.Fprintf(out, "verdict %s: lost %d, duplicated %d, unverifiable %d\n", word, v.lost(), v.duplicated(), v.forged+v.unverifiable())
}
