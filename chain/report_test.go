package chain_test

import (
	"crypto/sha256"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/chaintrail/chaintrail/chain"
	"github.com/chaintrail/chaintrail/schemas"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
	"github.com/chaintrail/chaintrail/schemas/seal"
)

func digest(text string) string { return seal.Hash(sha256.Sum256([]byte(text))).String() }

func TestReport(t *testing.T) {
	t.Parallel()
	s := &script{
		list: descriptor("a-first", "mutation", `,"priorityHint":1`) + "," + descriptor("b-second", "mutation", `,"priorityHint":2`) + "," +
			descriptor("c-broken", "mutation", `,"priorityHint":3,"failOpen":true`) + "," + descriptor("d-warns", "validation", "") + "," +
			descriptor("e-later", "mutation", `,"priorityHint":4,"mode":"audit"`),
		invoke: answers(map[string]string{
			"a-first":  `{"modified":true,"payload":{"n":1}}`,
			"b-second": `{"modified":true,"payload":{"n":2}}`,
			"d-warns":  `{"valid":true,"messages":[{"message":"hm","severity":"warn"}]}`,
		}),
	}
	host := s.host()
	host.Overrides = map[string]chain.Override{"e-later": {Sample: new(0.0)}}
	plan := planOf(t, chain.Config{}, host)
	in := input("tools/call")
	in.KeepSteps = true
	res := plan.Run(t.Context(), in)
	got := res.Report(&in)
	if _, err := jsonx.Marshal(got); err != nil {
		t.Errorf("the report has no JSON form: %v", err)
	}

	type part struct{ Name, State, In, Out string }
	var parts []part
	for i := range got.Results {
		one := &got.Results[i]
		p := part{Name: one.Interceptor, State: string(one.State)}
		for _, d := range []struct {
			hash seal.Hash
			text *string
		}{{one.InputDigest, &p.In}, {one.OutputDigest, &p.Out}} {
			if !d.hash.IsZero() {
				*d.text = d.hash.String()
			}
		}
		parts = append(parts, p)
	}
	sent, first, second := digest(string(in.Payload)), digest(`{"n":1}`), digest(`{"n":2}`)
	if diff := cmp.Diff(parts, []part{
		{"a-first", "finished", sent, first},
		{"b-second", "finished", first, second},
		{"c-broken", "failed", second, ""},
		{"e-later", "skipped", "", ""},
		{"d-warns", "finished", second, ""},
	}); diff != "" {
		t.Errorf("results differ (-got +want):\n%s", diff)
	}
	if diff := cmp.Diff(got.FailedOpen, []chain.FailedOpen{{Interceptor: "c-broken", State: schemas.StateFailed, Error: got.FailedOpen[0].Error}}); diff != "" || got.FailedOpen[0].Error == "" {
		t.Errorf("what failed open differs, or has no error (-got +want):\n%s", diff)
	}
	if diff := cmp.Diff(got.Skipped, []chain.SkippedResult{{Interceptor: "e-later", Reason: schemas.SkipSampling}}); diff != "" {
		t.Errorf("what was skipped differs (-got +want):\n%s", diff)
	}
	if !got.Allowed || !got.Modified || got.Status != schemas.StatusSuccess || string(got.FinalPayload) != `{"n":2}` ||
		got.Summary != (chain.Summary{Warnings: 1}) || got.AbortedAt != nil || got.DurationUS < 0 {
		t.Errorf("report: %+v", got)
	}

	in.KeepSteps = false
	res = plan.Run(t.Context(), in)
	if got := res.Report(&in).Results[1]; !got.InputDigest.IsZero() || got.OutputDigest.String() != second {
		t.Errorf("without the steps: given %s, made %s; want none and the final payload", got.InputDigest, got.OutputDigest)
	}
}

func TestReportOfDenial(t *testing.T) {
	t.Parallel()
	s := &script{
		list: descriptor("m", "mutation", "") + "," + descriptor("v", "validation", "") + "," + descriptor("w", "mutation", `,"priorityHint":9`),
		invoke: answers(map[string]string{
			"m": `{"modified":true,"payload":{"n":1}}`, "w": `{"modified":7}`, "v": `{"valid":true}`,
		}),
	}
	in := input("tools/call")
	res := planOf(t, chain.Config{}, s.host()).Run(t.Context(), in)
	got := res.Report(&in)
	if got.Allowed || got.FinalPayload != nil || got.AbortedAt == nil || got.AbortedAt.Interceptor != "w" ||
		got.AbortedAt.Type != "mutation" || got.AbortedAt.Code != -32603 || got.AbortedAt.Reason == "" || got.AbortedAt.Data == nil {
		t.Errorf("report: %+v, aborted at %+v", got, got.AbortedAt)
	}
	if diff := cmp.Diff(got.Skipped, []chain.SkippedResult{{Interceptor: "v", Reason: schemas.SkipAborted}}); diff != "" {
		t.Errorf("what was skipped differs (-got +want):\n%s", diff)
	}
	if len(got.FailedOpen) > 0 {
		t.Errorf("failed open: %+v", got.FailedOpen)
	}
}
