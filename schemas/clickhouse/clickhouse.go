// Package clickhouse holds the tables of the store as versioned statements, one a file.
//
// A statement that was shipped never changes: its checksum is pinned in checksums.txt, and the migrator refuses a
// database whose recorded checksum differs. A change is a new file with the next number. $ENGINE stands for the table
// engine, so that the same files serve one server (MergeTree) and a replicated cluster.
package clickhouse

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
)

//go:embed *.sql
var files embed.FS

// DefaultEngine is the table engine of a single server.
const DefaultEngine = "MergeTree"

// ReplicatedEngine is the table engine of a cluster whose servers define the macros shard and replica.
const ReplicatedEngine = "ReplicatedMergeTree('/clickhouse/tables/{shard}/{database}/{table}', '{replica}')"

const enginePlaceholder = "$ENGINE"

// Migration is one shipped statement.
type Migration struct {
	Version  uint32 // from 1, without a hole
	Name     string // file name, such as "0002_events.sql"
	Checksum string // SHA-256 of the file as shipped, 64 lower-case hex digits
	text     string
}

// Statement returns the SQL text for a table engine; "" means [DefaultEngine].
func (m Migration) Statement(engine string) string {
	if engine == "" {
		engine = DefaultEngine
	}
	return strings.ReplaceAll(m.text, enginePlaceholder, engine)
}

// Migrations returns every shipped migration in order of version.
func Migrations() ([]Migration, error) {
	names, err := fs.Glob(files, "*.sql")
	if err != nil {
		return nil, fmt.Errorf("list migrations: %w", err)
	}
	all := make([]Migration, 0, len(names))
	for i, name := range names { // Glob sorts by name
		number, _, _ := strings.Cut(name, "_")
		version, err := strconv.ParseUint(number, 10, 32)
		if err != nil || version != uint64(i+1) {
			return nil, fmt.Errorf("migration %s must be numbered %04d", name, i+1)
		}
		text, err := files.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("read migration %s: %w", name, err)
		}
		sum := sha256.Sum256(text)
		all = append(all, Migration{
			Version: uint32(version), Name: name, Checksum: hex.EncodeToString(sum[:]), text: string(text),
		})
	}
	return all, nil
}
