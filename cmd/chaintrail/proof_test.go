package main

import (
	"os"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/chaintrail/chaintrail/internal/query"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

// cmdProofs proves the newest exchange of a search: proofs stdout. It writes proof.json, and changed.json, which says
// something else.
func cmdProofs(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: proofs FILE")
	}
	var found []query.Exchange
	ts.Check(jsonx.Unmarshal([]byte(ts.ReadFile(args[0])), &found))
	if len(found) == 0 {
		ts.Fatalf("the search found nothing")
	}
	ts.Check(ts.Exec("chaintrail", "prove", found[0].ID.String(), "--with-bodies"))
	proof := ts.ReadFile("stdout")
	ts.Check(os.WriteFile(ts.MkAbs("proof.json"), []byte(proof), 0o600))
	changed := strings.Replace(proof, `\"tenant\":\"default\"`, `\"tenant\":\"defaulT\"`, 1)
	if changed == proof {
		ts.Fatalf("nothing to change in the proof")
	}
	ts.Check(os.WriteFile(ts.MkAbs("changed.json"), []byte(changed), 0o600))
}
