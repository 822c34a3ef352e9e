package file_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/chaintrail/chaintrail/sinks"
	"github.com/chaintrail/chaintrail/sinks/file"
	"github.com/chaintrail/chaintrail/sinks/sinktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// place is a folder.
type place struct {
	dir string
	max int64
}

func (p *place) Open(t *testing.T) (sinks.Sink, func()) {
	t.Helper()
	s, err := file.New(file.Config{Dir: p.dir, MaxBytes: p.max})
	if err != nil {
		t.Fatal(err)
	}
	return s, func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

func (p *place) files(t *testing.T) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(p.dir, "*.ndjson"))
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(names)
	return names
}

func (p *place) Read(t *testing.T) (all []sinktest.Stored) {
	t.Helper()
	for _, name := range p.files(t) {
		raw, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, lines(t, raw)...)
	}
	return all
}

func lines(t *testing.T, raw []byte) (all []sinktest.Stored) {
	t.Helper()
	scanner := bufio.NewScanner(bytes.NewReader(raw))
	for scanner.Scan() {
		var line struct {
			Position uint64
			Hash     string
			Event    json.RawMessage
		}
		if err := json.Unmarshal(scanner.Bytes(), &line); err != nil {
			t.Fatalf("line %q: %v", scanner.Text(), err)
		}
		all = append(all, sinktest.Stored{Position: line.Position, Hash: line.Hash})
	}
	return all
}

func TestContract(t *testing.T) {
	t.Parallel()
	sinktest.Suite(t, func(t *testing.T, _ string) sinktest.Place {
		t.Helper()
		return &place{dir: t.TempDir()}
	})
}

func TestContractWithRotation(t *testing.T) {
	t.Parallel()
	sinktest.Suite(t, func(t *testing.T, _ string) sinktest.Place {
		t.Helper()
		return &place{dir: t.TempDir(), max: 900}
	})
}

// crashing is a place whose last write never reached its cursor: what a process that dies between both leaves behind.
type crashing struct{ place }

func (p *crashing) Open(t *testing.T) (sinks.Sink, func()) {
	t.Helper()
	for _, name := range p.files(t) {
		f, err := os.OpenFile(name, os.O_WRONLY|os.O_APPEND, 0)
		if err != nil {
			t.Fatal(err)
		}
		if name == p.files(t)[len(p.files(t))-1] {
			_, err = f.WriteString(`{"position":999,"ha`)
		}
		if err := errors.Join(err, f.Close()); err != nil {
			t.Fatal(err)
		}
	}
	return p.place.Open(t)
}

func (p *crashing) Read(t *testing.T) []sinktest.Stored {
	t.Helper()
	return p.place.Read(t)
}

func TestContractAfterTornWrites(t *testing.T) {
	t.Parallel()
	sinktest.Suite(t, func(t *testing.T, _ string) sinktest.Place {
		t.Helper()
		return &crashing{place{dir: t.TempDir(), max: 2000}}
	})
}

func TestFolderIsLocked(t *testing.T) {
	t.Parallel()
	p := &place{dir: t.TempDir()}
	first, release := p.Open(t)
	defer release()
	if _, err := first.Resume(t.Context(), "S"); err != nil {
		t.Fatal(err)
	}
	second, releaseSecond := p.Open(t)
	defer releaseSecond()
	if _, err := second.Resume(t.Context(), "S"); !errors.Is(err, file.ErrLocked) {
		t.Errorf("second sink resumed with %v, want ErrLocked", err)
	}
}

func TestDamagedFolder(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		cursor, content string
		want            error
	}{
		"short file":      {`{"stream":"S","position":1,"leaves":1,"file":"a.ndjson","size":10,"seen":{}}`, "short", file.ErrShort},
		"missing file":    {`{"stream":"S","position":1,"leaves":1,"file":"b.ndjson","size":10,"seen":{}}`, "", os.ErrNotExist},
		"file elsewhere":  {`{"stream":"S","position":1,"leaves":1,"file":"../a.ndjson","size":1,"seen":{}}`, "abc", nil},
		"torn cursor":     {`{"stream":"S","pos`, "abc", nil},
		"unknown member":  {`{"stream":"S","later":1}`, "abc", nil},
		"negative length": {`{"stream":"S","position":1,"leaves":1,"file":"a.ndjson","size":-1,"seen":{}}`, "abc", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := &place{dir: t.TempDir()}
			for name, content := range map[string]string{"S.cursor.json": test.cursor, "a.ndjson": test.content} {
				if err := os.WriteFile(filepath.Join(p.dir, name), []byte(content), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			s, release := p.Open(t)
			defer release()
			if _, err := s.Resume(t.Context(), "S"); err == nil || test.want != nil && !errors.Is(err, test.want) {
				t.Errorf("Resume returned %v, want %v", err, test.want)
			}
		})
	}
}

func TestLetters(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "dead", "letters.ndjson")
	l := file.NewLetters(path)
	for i := range 3 {
		err := l.Put(t.Context(), sinks.Letter{
			Stream: "S", Position: uint64(i), Subject: "a\xff", Header: map[string][]string{"H\xff": {"v\xff"}}, Data: []byte("\xff\n"),
			Reason: "undecodable", Err: errors.New("odd \xff"),
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(raw), "\n"); n != 3 {
		t.Errorf("%d lines, want 3: %s", n, raw)
	}
	for line := range strings.Lines(string(raw)) {
		var got struct{ Data []byte }
		if err := json.Unmarshal([]byte(line), &got); err != nil || string(got.Data) != "\xff\n" {
			t.Errorf("line %s holds %q, %v", line, got.Data, err)
		}
	}
}
