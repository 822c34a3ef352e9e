package outbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"uuid"

	"github.com/google/renameio/v2"

	"github.com/chaintrail/chaintrail/schemas"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

const markerName = "adopted"

// marker lies in the folder of a dead writer. It is written before the death is declared, and again
// when it is declared.
type marker struct {
	Adopter uuid.UUID `json:"adopter"` // in whose chain the declaration stands, or would stand
	From    uint64    `json:"from"`    // it has this seq or a later one
	Done    bool      `json:"done"`    // it does stand there
}

// readMarker returns the zero value where there is none.
func readMarker(dir string) (marker, error) {
	var m marker
	path := filepath.Join(dir, markerName)
	b, err := os.ReadFile(path) //nolint:gosec // a name of ours in a configured folder
	if errors.Is(err, os.ErrNotExist) {
		return m, nil
	}
	if err != nil {
		return m, fmt.Errorf("read adoption marker: %w", err)
	}
	if err := jsonx.UnmarshalStrict(b, &m); err != nil {
		return m, fmt.Errorf("adoption marker %s: %w", path, err)
	}
	return m, nil
}

func writeMarker(dir string, m marker) error {
	b, err := jsonx.Marshal(m)
	if err != nil {
		return fmt.Errorf("write adoption marker: %w", err)
	}
	if err := renameio.WriteFile(filepath.Join(dir, markerName), b, fileMode); err != nil {
		return fmt.Errorf("write adoption marker: %w", err)
	}
	return nil
}

// declared looks in the adopter's journal for the event that declares dead's death.
func (m marker) declared(journals string, dead uuid.UUID) (bool, error) {
	dir := filepath.Join(journals, m.Adopter.String())
	if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) {
		return false, nil // somebody deleted it by hand; a second outcome is better than none
	}
	for e, err := range scanFrom(dir, m.From) {
		if err != nil {
			return false, fmt.Errorf("look for the declaration of %s: %w", dead, err)
		}
		if e.Seq < m.From || e.Kind != schemas.KindWriter {
			continue
		}
		var ev schemas.Event
		if err := jsonx.Unmarshal(e.Sealed, &ev); err != nil {
			return false, fmt.Errorf("look for the declaration of %s: event %d: %w", dead, e.Seq, err)
		}
		if ev.Life != nil && ev.Life.State == LifeAdopted && ev.Life.Subject != nil && ev.Life.Subject.Writer == dead {
			return true, nil
		}
	}
	return false, nil
}
