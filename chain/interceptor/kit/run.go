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

	"github.com/chaintrail/chaintrail/chain"
	"github.com/chaintrail/chaintrail/chain/interceptor"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

// ErrMismatch is returned by [Check], wrapped with the difference, for an answer that is not the wanted one.
var ErrMismatch = errors.New("not the wanted answer")

// Run tests the interceptor on the files that match the pattern of [filepath.Glob], each as a subtest, one after the
// other and in the order of their names: an interceptor that keeps a state keeps it. A pattern without files fails.
func Run(t *testing.T, i interceptor.Interceptor, pattern string) { //nolint:thelper // this is the test, and its lines are told
	run(t, pattern, func(ctx context.Context, file string, update bool) error {
		if update {
			return Update(ctx, i, file)
		}
		return Check(ctx, i, file)
	})
}

// RunServer is [Run] for the interceptor of that name of a server behind a connection, in whatever language it is written;
// its results have to be in the flat form of SEP-2624.
func RunServer(t *testing.T, server chain.Caller, name, pattern string) { //nolint:thelper // as in Run
	s := subject{name, server}
	run(t, pattern, func(ctx context.Context, file string, update bool) error {
		if update {
			return s.update(ctx, file)
		}
		return s.check(ctx, file)
	})
}

func run(t *testing.T, pattern string, do func(ctx context.Context, file string, update bool) error) { //nolint:thelper // as in Run
	files, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatalf("pattern %q: %v", pattern, err)
	}
	f := flag.Lookup("update")
	update := f != nil && f.Value.String() == "true"
	count := 0
	for _, file := range files {
		if strings.HasSuffix(file, wantSuffix) {
			continue
		}
		count++
		t.Run(filepath.Base(file), func(t *testing.T) {
			if err := do(t.Context(), file, update); err != nil {
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
	return local(ctx, i, func(s subject) error { return s.check(ctx, file) })
}

// Update writes the answers of the interceptor into the file. A recording is not changed: it is checked.
func Update(ctx context.Context, i interceptor.Interceptor, file string) error {
	return local(ctx, i, func(s subject) error { return s.update(ctx, file) })
}

// local serves the interceptor while do runs, and until its handlers have returned.
func local(ctx context.Context, i interceptor.Interceptor, do func(subject) error) error {
	server, err := interceptor.New(nil, i)
	if err != nil {
		return err
	}
	conn, err := chain.Local(server)(ctx)
	if err != nil {
		return err
	}
	return errors.Join(do(subject{i.Descriptor.Name, conn}), conn.Close(), server.Wait(ctx))
}

// subject is the interceptor under test.
type subject struct {
	name   string
	server chain.Caller
}

func (i subject) check(ctx context.Context, file string) error {
	return i.each(ctx, file, func(s *suite, step int, got string) error {
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

func (i subject) update(ctx context.Context, file string) error {
	if strings.HasSuffix(file, recordingSuffix) {
		return i.check(ctx, file)
	}
	var answered *suite
	err := i.each(ctx, file, func(s *suite, step int, got string) error {
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
func (i subject) each(ctx context.Context, file string, take func(s *suite, step int, got string) error) error {
	s, err := read(file, i.name)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	var faults []error
	for n, step := range s.steps {
		got, err := i.invoke(ctx, step.params)
		if err == nil {
			err = take(s, n, got)
		}
		if err != nil {
			faults = append(faults, fmt.Errorf("%s: step %d: %w", file, n+1, err))
		}
	}
	return errors.Join(faults...)
}

func (i subject) invoke(ctx context.Context, params jsonx.Value) (string, error) {
	result, err := i.server.Call(ctx, interceptor.MethodInvoke, params)
	refused := refusalOf(err)
	if err != nil && refused == nil {
		return "", err
	}
	return describe(params, result, refused)
}
