package file

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/chaintrail/chaintrail/schemas/jsonx"
	"github.com/chaintrail/chaintrail/sinks"
)

// letter is one line of the dead letters.
type letter struct {
	Stream    string              `json:"stream"`
	Position  uint64              `json:"position"`
	Published time.Time           `json:"published"`
	Subject   string              `json:"subject,omitzero"`
	Header    map[string][]string `json:"header,omitempty"`
	Reason    string              `json:"reason"`
	Table     string              `json:"table,omitzero"`
	Error     string              `json:"error,omitzero"`
	Data      []byte              `json:"data"` // base64
}

// Letters keeps dead letters as lines of JSON in a file, each synced before it counts. After a restart a letter may
// be there twice, under the same stream and position. It may be used by several goroutines at once.
type Letters struct {
	path string
	mu   sync.Mutex // one line after the other
}

// NewLetters keeps dead letters in a file, which is made with mode 0600 when there is a first one.
func NewLetters(path string) *Letters { return &Letters{path: path} }

// Put implements sinks.DeadLetters.
func (l *Letters) Put(_ context.Context, dead sinks.Letter) error {
	line := letter{
		Stream: dead.Stream, Position: dead.Position, Published: dead.Published.UTC(), Subject: text(dead.Subject),
		Reason: dead.Reason, Table: dead.Table, Data: dead.Data,
	}
	if dead.Err != nil {
		line.Error = text(dead.Err.Error())
	}
	if len(dead.Header) > 0 {
		line.Header = map[string][]string{}
	}
	for name, all := range dead.Header {
		for _, one := range all {
			line.Header[text(name)] = append(line.Header[text(name)], text(one))
		}
	}
	raw, err := jsonx.Marshal(&line)
	if err != nil {
		return fmt.Errorf("encode dead letter: %w", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.append(append(raw, '\n'))
}

func (l *Letters) append(line []byte) error {
	if err := os.MkdirAll(filepath.Dir(l.path), 0o700); err != nil {
		return fmt.Errorf("make folder of dead letters: %w", err)
	}
	file, err := os.OpenFile(l.path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("open dead letters: %w", err)
	}
	_, err = file.Write(line)
	if err == nil {
		err = file.Sync()
	}
	if err := errors.Join(err, file.Close()); err != nil {
		return fmt.Errorf("write dead letters: %w", err)
	}
	return nil
}

// text makes any bytes fit for JSON.
func text(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }
