package wire_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chaintrail/chaintrail/chain/wire"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

// Callers that read for each other, and give up at any moment, still get their own answers, and all of them.
func TestClientCallersReadForEachOther(t *testing.T) {
	t.Parallel()
	ours, theirs := pipes(t)
	served := make(chan struct{})
	go func() { defer close(served); serveEcho(theirs) }()
	t.Cleanup(func() { <-served; _ = theirs.Close() })
	client := runClient(t, ours, nil)
	var all sync.WaitGroup
	for caller := range 8 {
		all.Go(func() {
			random := rand.New(rand.NewPCG(1, uint64(caller)))
			for i := range 200 {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(random.IntN(300))*time.Microsecond)
				switch random.IntN(4) {
				case 0: // is never answered
					if _, err := client.Call(ctx, "hang", nil); !errors.Is(err, context.DeadlineExceeded) {
						t.Errorf("an unanswered call: %v", err)
					}
				case 1: // may be answered
					_, _ = client.Call(ctx, "echo", nil)
				default:
					want := fmt.Sprintf(`{"c":%d,"i":%d,"pad":"%s"}`, caller, i, strings.Repeat("x", random.IntN(3000)))
					if got, err := client.Call(t.Context(), "echo", jsonx.Value(want)); err != nil || string(got) != want {
						t.Errorf("Call: %.60s, %v; want %.60s", got, err, want)
					}
				}
				cancel()
			}
		})
	}
	all.Wait()
}

// A call that gives up while half of a line was read leaves the line whole for the next one.
func TestClientGivesUpAmidALine(t *testing.T) {
	t.Parallel()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	theirIn, ourOut := io.Pipe()
	go func() { _, _ = io.Copy(io.Discard, theirIn) }() // exits when the client closes
	noted := make(chan string, 2)
	client := runClient(t, wire.NewLineConn(r, ourOut, nil), &wire.ClientOptions{
		Notification: func(method string, _ jsonx.Value) { noted <- method },
	})
	t.Cleanup(func() { _ = w.Close() })
	write := func(text string) {
		if _, err := w.WriteString(text); err != nil {
			t.Error(err)
		}
	}
	long := strings.Repeat("x", 100_000)
	go write(`{"jsonrpc":"2.0","method":"first"}` + "\n" + `{"jsonrpc":"2.0","method":"` + long)
	if got := <-noted; got != "first" {
		t.Errorf("notified of %s", got)
	}
	for range 20 {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Millisecond)
		if _, err := client.Call(ctx, "x", nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Call: %v, want deadline exceeded", err)
		}
		cancel()
	}
	write(`"}` + "\n")
	if got := <-noted; got != long {
		t.Errorf("notified of %.20s… with %d bytes", got, len(got))
	}
}

// Whatever pieces a stream comes in, its lines are the same.
func FuzzLineConnPieces(f *testing.F) {
	f.Add([]byte("{}\n\r\n  x\r\ny"), uint8(1))
	f.Add([]byte(strings.Repeat("a", 70_000)+"\n"+strings.Repeat("b", 200_000)+"\nc"), uint8(200))
	f.Fuzz(func(t *testing.T, stream []byte, size uint8) {
		lines := func(r io.Reader) (all []string) {
			conn := wire.NewLineConn(r, nopCloser{io.Discard}, &wire.LineOptions{MaxMessage: 100_000})
			for {
				line, err := conn.ReadMessage()
				switch {
				case err == nil:
					all = append(all, string(line))
				case errors.Is(err, wire.ErrTooLarge):
					all = append(all, "too large")
				case errors.Is(err, io.EOF):
					return all
				default:
					t.Fatal(err)
				}
			}
		}
		got := lines(&pieces{r: bytes.NewReader(stream), size: int(size)*7 + 1})
		var want []string
		for line := range bytes.SplitSeq(stream, []byte("\n")) {
			text := bytes.TrimRight(line, "\r")
			if len(text) > 100_000 {
				want = append(want, "too large")
			} else if line = bytes.TrimRight(line, " \t\r"); len(bytes.TrimLeft(line, " \t\r")) > 0 {
				want = append(want, string(line))
			}
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%d lines, want %d: %.200q, want %.200q", len(got), len(want), got, want)
		}
	})
}

// pieces reads so many bytes at once.
type pieces struct {
	r    io.Reader
	size int
}

func (p *pieces) Read(b []byte) (int, error) { return p.r.Read(b[:min(len(b), p.size)]) }
