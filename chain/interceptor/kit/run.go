package kit

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/chaintrail/chaintrail/chain/interceptor"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

// ErrMismatch is returned by [Check], wrapped with the difference, for an answer that is not the wanted one.
var ErrMismatch = errors.New("not the wanted answer")

// Run tests the interceptor on the files that match the pattern of [filepath.Glob], each as a subtest, one after the
// other and in the order of their names: an interceptor that keeps a state keeps it. A pattern without files fails.
func Run(t *testing.T, i interceptor.Interceptor, pattern string) { //nolint:thelper // this is the test, and its lines are told
	files, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatalf("pattern %q: %v", pattern, err)
	}
	do, count := Check, 0
	if f := flag.Lookup("update"); f != nil && f.Value.String() == "true" {
		do = Update
	}
	for _, file := range files {
		if strings.HasSuffix(file, wantSuffix) {
			continue
		}
		count++
		t.Run(filepath.Base(file), func(t *testing.T) {
			if err := do(t.Context(), i, file); err != nil {
				t.Error(err)
			}
		})
	}
	if count == 0 {
		t.Fatalf("no file matches %q", pattern)
	}
}

// Check tests the interceptor on one file. The error says the file, the step in it, and what differs.
func Check(ctx context.Context, i interceptor.Interceptor, file string) error {
	return each(ctx, i, file, func(s *suite, step int, got string) error {
		want := s.steps[step].want
		switch {
		case want == nil:
			return errors.New("has no want: run go test with -update, and read what it wrote")
		case *want != got:
			return fmt.Errorf("%w (-want +got):\n%s", ErrMismatch, cmp.Diff(*want, got))
		}
		return nil
	})
}

// Update writes the answers of the interceptor into the file. A recording is not changed: it is checked.
func Update(ctx context.Context, i interceptor.Interceptor, file string) error {
	if strings.HasSuffix(file, recordingSuffix) {
		return Check(ctx, i, file)
	}
	var answered *suite
	err := each(ctx, i, file, func(s *suite, step int, got string) error {
		answered, s.steps[step].want = s, &got
		return nil
	})
	if err != nil {
		return err
	}
	name, data := answered.format()
	if err := os.WriteFile(name, data, 0o600); err != nil {
		return fmt.Errorf("write what was answered: %w", err)
	}
	return nil
}

// each invokes the interceptor for all steps of a file, and hands the answers over as text.
func each(ctx context.Context, i interceptor.Interceptor, file string, take func(s *suite, step int, got string) error) error {
	server, err := interceptor.New(nil, i)
	if err != nil {
		return err
	}
	s, err := read(file, i.Descriptor.Name)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	var faults []error
	for n, step := range s.steps {
		got, err := invoke(ctx, server, step.params)
		if err == nil {
			err = take(s, n, got)
		}
		if err != nil {
			faults = append(faults, fmt.Errorf("%s: step %d: %w", file, n+1, err))
		}
	}
	return errors.Join(append(faults, server.Wait(ctx))...)
}

func invoke(ctx context.Context, server *interceptor.Server, params jsonx.Value) (string, error) {
	result, err := server.Invoke(ctx, params)
	refused := refusalOf(err)
	if err != nil && refused == nil {
		return "", err
	}
	return describe(params, result, refused)
}
