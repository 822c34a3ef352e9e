package kit

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/chaintrail/chaintrail/chain/interceptor"
	"github.com/chaintrail/chaintrail/schemas"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

const (
	sectionCall     = "call.json"
	sectionPayload  = "payload.json"
	sectionWant     = "want"
	wantSuffix      = ".want"
	recordingSuffix = ".jsonl"
)

// suite is a file.
type suite struct {
	file    string
	archive *txtar.Archive // nil for another kind of file
	steps   []step
}

// step is one invocation.
type step struct {
	params  jsonx.Value
	section int     // of its payload in the archive
	want    *string // nil: there is none yet
}

// call is what a section call.json says.
type call struct {
	Event   string        `json:"event"`
	Phase   schemas.Phase `json:"phase"`
	Config  jsonx.Value   `json:"config"`
	Context jsonx.Value   `json:"context"`
	Meta    jsonx.Value   `json:"_meta"`
	Timeout jsonx.Value   `json:"timeoutMs"`
}

// params are those of interceptor/invoke.
type params struct {
	Name    string        `json:"name"`
	Event   string        `json:"event"`
	Phase   schemas.Phase `json:"phase"`
	Payload jsonx.Value   `json:"payload"`
	Config  jsonx.Value   `json:"config,omitempty"`
	Context jsonx.Value   `json:"context,omitempty"`
	Meta    jsonx.Value   `json:"_meta,omitempty"`
	Timeout jsonx.Value   `json:"timeoutMs,omitempty"`
}

func (c *call) params(name string, payload jsonx.Value) (jsonx.Value, error) {
	p := params{name, c.Event, c.Phase, payload, c.Config, c.Context, c.Meta, c.Timeout}
	if p.Event == "" {
		p.Event = interceptor.EventToolsCall
	}
	if p.Phase == "" {
		p.Phase = schemas.PhaseRequest
	}
	return jsonx.Marshal(&p)
}

func read(file, name string) (*suite, error) {
	data, err := os.ReadFile(file) //nolint:gosec // G304: the author of the test names the file
	if err != nil {
		return nil, err
	}
	s := &suite{file: file}
	switch {
	case strings.HasSuffix(file, ".txtar"):
		err = s.readArchive(data, name)
	case strings.HasSuffix(file, ".json"):
		err = s.readParams(data)
	case strings.HasSuffix(file, recordingSuffix):
		err = s.readRecording(data, name)
	default:
		err = errors.New("is neither .txtar nor .json nor .jsonl")
	}
	if err == nil && len(s.steps) == 0 {
		err = fmt.Errorf("has nothing for the interceptor %q", name)
	}
	return s, err
}

func (s *suite) readArchive(data []byte, name string) error {
	s.archive = txtar.Parse(data)
	var said call
	for n, section := range s.archive.Files {
		switch section.Name {
		case sectionCall:
			said = call{}
			if err := jsonx.UnmarshalStrict(section.Data, &said); err != nil {
				return fmt.Errorf("section %d, %s: %w", n+1, section.Name, err)
			}
		case sectionPayload:
			if err := strict(section.Data); err != nil {
				return fmt.Errorf("section %d, %s: %w", n+1, section.Name, err)
			}
			all, err := said.params(name, bytes.TrimSpace(section.Data))
			if err != nil {
				return fmt.Errorf("section %d, %s: %w", n+1, section.Name, err)
			}
			s.steps = append(s.steps, step{params: all, section: n})
		case sectionWant:
			last := len(s.steps) - 1
			if last < 0 || s.steps[last].section != n-1 {
				return fmt.Errorf("section %d: want does not stand behind a payload.json", n+1)
			}
			text := string(section.Data)
			s.steps[last].want = &text
		default:
			return fmt.Errorf("section %d, %s: there are call.json, payload.json and want", n+1, section.Name)
		}
	}
	return nil
}

func (s *suite) readParams(data []byte) error {
	if err := strict(data); err != nil {
		return err
	}
	s.steps = []step{{params: bytes.TrimSpace(data)}}
	want, err := os.ReadFile(s.file + wantSuffix)
	switch {
	case err == nil:
		text := string(want)
		s.steps[0].want = &text
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	return nil
}

func strict(data []byte) error {
	traits, err := jsonx.Verify(data, 0)
	if err != nil || traits.Duplicates || traits.InvalidUTF8 {
		return fmt.Errorf("not strict JSON: %w", errors.Join(err, jsonx.DuplicateAt(data)))
	}
	return nil
}

// format returns the file to write, and what it holds.
func (s *suite) format() (name string, data []byte) {
	if s.archive == nil {
		return s.file + wantSuffix, []byte(*s.steps[0].want)
	}
	out := txtar.Archive{Comment: s.archive.Comment}
	next := 0
	for n, section := range s.archive.Files {
		if section.Name == sectionWant {
			continue
		}
		out.Files = append(out.Files, section)
		if next < len(s.steps) && s.steps[next].section == n {
			out.Files = append(out.Files, txtar.File{Name: sectionWant, Data: []byte(*s.steps[next].want)})
			next++
		}
	}
	return s.file, txtar.Format(&out)
}
