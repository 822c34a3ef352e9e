package redact

import (
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// github is put together here so that no scanner of sources takes it for a real one.
var github = "ghp" + "_" + strings.Repeat("aB3", 12)

// cleanPayload is a call of 2 KiB with nothing to hide.
func cleanPayload() []byte {
	var b strings.Builder
	b.WriteString(`{"name":"search_documents","arguments":{"query":"quarterly report for the northern region","limit":25,"filters":[`)
	for i := range 12 {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(`{"field":"created_at","op":"between","from":"2026-01-01T00:00:00Z","to":"2026-06-30T23:59:59Z","note":"as agreed in the weekly meeting"}`)
	}
	b.WriteString(`],"include_archived":false,"sort":["-score","title"]},"_meta":{"progressToken":"p-17"}}`)
	return []byte(b.String())
}
