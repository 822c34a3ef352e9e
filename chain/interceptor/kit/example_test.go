package kit_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/chaintrail/chaintrail/chain/interceptor"
	"github.com/chaintrail/chaintrail/chain/interceptor/kit"
)

var _ = flag.Bool("update", false, "write what happens into the files of payloads")

// read is the part of a tool call that the guard looks at.
type read struct {
	Name      string `json:"name"`
	Arguments struct {
		Path string `json:"path"`
	} `json:"arguments"`
}

type places struct {
	Roots []string `json:"roots,omitzero"`
}

// guard keeps tool calls in some folders.
func guard() interceptor.Interceptor {
	return interceptor.ConfiguredValidator(interceptor.Descriptor{
		Name: "acme/guard", Hooks: interceptor.OnRequest(interceptor.EventToolsCall),
	}, func(_ context.Context, _ *interceptor.Call, call *read, config *places) (interceptor.Verdict, error) {
		if slices.ContainsFunc(config.Roots, func(root string) bool { return strings.HasPrefix(call.Arguments.Path, root) }) {
			return interceptor.Pass(), nil
		}
		v := interceptor.Deny("outside of the house")
		v.Messages[0].Path = "arguments.path"
		return v, nil
	})
}

// TestGuard is all that an author writes; the rest is in the files.
func TestGuard(t *testing.T) {
	t.Parallel()
	kit.Run(t, guard(), "testdata/guard*")
}

func Example() {
	ctx := context.Background()
	fmt.Println(kit.Check(ctx, guard(), "testdata/guard.txtar"))

	// An interceptor that lets everything through does not pass.
	open := interceptor.ValidatorBool(interceptor.Descriptor{
		Name: "acme/guard", Hooks: interceptor.OnRequest(interceptor.EventToolsCall),
	}, func(context.Context, *interceptor.Call) (bool, error) { return true, nil })
	fmt.Println(errors.Is(kit.Check(ctx, open, "testdata/guard.txtar"), kit.ErrMismatch))
	// Output:
	// <nil>
	// true
}
