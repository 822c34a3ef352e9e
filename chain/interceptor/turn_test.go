package interceptor_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/chaintrail/chaintrail/chain/interceptor"
	"github.com/chaintrail/chaintrail/chain/wire"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

// fickle serves an interceptor that is fast but for calls with a payload that says otherwise.
func fickle(t *testing.T, release <-chan struct{}) *wire.Client {
	t.Helper()
	server, err := interceptor.New(nil, interceptor.Validator(on("fickle"),
		func(_ context.Context, call *interceptor.Call) (interceptor.Verdict, error) {
			if strings.Contains(string(call.Payload), "stay") {
				<-release
			}
			return interceptor.Pass(), nil
		}))
	if err != nil {
		t.Fatal(err)
	}
	theirIn, ourOut, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	ourIn, theirOut, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	client := wire.NewClient(wire.NewLineConn(ourIn, ourOut, nil), nil)
	running.Go(func() {
		if err := server.ServeStdio(context.Background(), theirIn, theirOut); err != nil {
			t.Errorf("ServeStdio: %v", err)
		}
	})
	running.Go(func() { _ = client.Run(context.Background()) })
	t.Cleanup(func() {
		_ = client.Close()
		running.Wait()
		if err := server.Wait(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return client
}

func fickleParams(word, more string) jsonx.Value {
	return jsonx.Value(`{"name":"fickle","event":"tools/call","phase":"request"` + more + `,"payload":{"word":"` + word + `"}}`)
}

// A handler that was fast, and stays for once, keeps neither other calls nor its own timeout nor cancellations waiting.
func TestStdioHandlerThatStaysForOnce(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	free := sync.OnceFunc(func() { close(release) })
	client := fickle(t, release)
	t.Cleanup(free) // before the server is waited for
	pass := func() {
		t.Helper()
		for range 20 {
			if _, err := client.Call(t.Context(), interceptor.MethodInvoke, fickleParams("go", "")); err != nil {
				t.Fatal(err)
			}
		}
	}
	for range 5 {
		pass()
		_, err := client.Call(t.Context(), interceptor.MethodInvoke, fickleParams("stay", `,"timeoutMs":3`))
		rpc, answered := errors.AsType[*wire.RPCError](err)
		if !answered || rpc.Code != wire.CodeTimeout || !strings.Contains(string(rpc.Data), `"timeoutMs":3`) {
			t.Errorf("a handler that stays is answered with %v, want a timeout", err)
		}
	}
	pass()
	ctx, cancel := context.WithCancel(t.Context())
	var stays sync.WaitGroup
	for range 3 {
		stays.Go(func() {
			if _, err := client.Call(ctx, interceptor.MethodInvoke, fickleParams("stay", "")); !errors.Is(err, context.Canceled) {
				t.Errorf("a cancelled call: %v", err)
			}
		})
		pass()
	}
	cancel()
	stays.Wait()
	var last sync.WaitGroup
	for range 3 {
		last.Go(func() {
			if _, err := client.Call(t.Context(), interceptor.MethodInvoke, fickleParams("stay", "")); err != nil {
				t.Errorf("a call that stays for a while: %v", err)
			}
		})
		pass()
	}
	free()
	last.Wait()
}

// The connection ends although the reader is in a handler that stays.
func TestStdioEndsWhileAHandlerStays(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	client := fickle(t, release)
	for range 20 {
		if _, err := client.Call(t.Context(), interceptor.MethodInvoke, fickleParams("go", "")); err != nil {
			t.Fatal(err)
		}
	}
	var stays sync.WaitGroup
	stays.Go(func() {
		if _, err := client.Call(t.Context(), interceptor.MethodInvoke, fickleParams("stay", `,"timeoutMs":60000`)); !errors.Is(err, wire.ErrDisconnected) {
			t.Errorf("a call whose connection ended: %v", err)
		}
	})
	if _, err := client.Call(t.Context(), interceptor.MethodInvoke, fickleParams("go", "")); err != nil {
		t.Error(err)
	}
	_ = client.Close()
	stays.Wait()
	close(release)
}
