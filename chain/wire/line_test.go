package wire_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/chaintrail/chaintrail/chain/wire"
)

type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }

func TestLineConnReads(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 200_000)
	const limit = 100_000
	fits := strings.Repeat("y", limit)
	in := "\n \t\r\n{\"a\":1}\r\n" + long + "\r\n" + fits + "\n" + fits + "z\n" + "{\"b\":2}"
	conn := wire.NewLineConn(strings.NewReader(in), nopCloser{io.Discard}, &wire.LineOptions{MaxMessage: limit})
	var got []string
	for {
		line, err := conn.ReadMessage()
		if errors.Is(err, wire.ErrTooLarge) {
			if !strings.Contains(err.Error(), "100000") {
				t.Errorf("error %q does not name the limit", err)
			}
			got = append(got, "too large")
			continue
		}
		if err != nil {
			if !errors.Is(err, io.EOF) {
				t.Errorf("ReadMessage: %v, want EOF", err)
			}
			break
		}
		got = append(got, string(line))
	}
	want := []string{`{"a":1}`, "too large", fits, "too large", `{"b":2}`}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("lines differ (-want +got):\n%s", diff)
	}
}

// The end of a line may fall anywhere on the reader's buffer.
func TestLineConnBufferBoundaries(t *testing.T) {
	t.Parallel()
	const buffer = 64 << 10
	for limit := buffer - 3; limit <= buffer+3; limit++ {
		for _, end := range []string{"\n", "\r\n"} {
			in := strings.Repeat("x", limit) + end + strings.Repeat("y", limit+1) + end + "z" + end
			conn := wire.NewLineConn(strings.NewReader(in), nopCloser{io.Discard}, &wire.LineOptions{MaxMessage: limit})
			first, err := conn.ReadMessage()
			if err != nil || len(first) != limit {
				t.Errorf("limit %d, end %q: line of %d bytes, %v", limit, end, len(first), err)
			}
			if _, err := conn.ReadMessage(); !errors.Is(err, wire.ErrTooLarge) {
				t.Errorf("limit %d, end %q: %v, want ErrTooLarge", limit, end, err)
			}
			if last, err := conn.ReadMessage(); string(last) != "z" {
				t.Errorf("limit %d, end %q: last line is %.10q, %v", limit, end, last, err)
			}
		}
	}
}

func TestLineConnWritesOneLine(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	conn := wire.NewLineConn(strings.NewReader(""), nopCloser{&out}, nil)
	if err := conn.Send(t.Context(), []byte("{\r\n \"a\": 1\n}"), nil); err != nil {
		t.Fatal(err)
	}
	if got, want := out.String(), "{   \"a\": 1 }\n"; got != want {
		t.Errorf("wrote %q, want %q", got, want)
	}
}

func TestLineConnConcurrentWrites(t *testing.T) {
	t.Parallel()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	sender := wire.NewLineConn(strings.NewReader(""), w, nil)
	receiver := wire.NewLineConn(r, nopCloser{io.Discard}, nil)
	var wg sync.WaitGroup
	const writers, each = 8, 200
	for i := range writers {
		wg.Go(func() {
			for range each {
				_ = sender.Send(t.Context(), bytes.Repeat([]byte{byte('a' + i)}, 1000+i*700), nil)
			}
		})
	}
	wg.Go(func() {
		count := 0
		_ = receiver.Receive(t.Context(), func(raw []byte) {
			count++
			if want := 1000 + int(raw[0]-'a')*700; len(raw) != want || len(bytes.Trim(raw, string(raw[:1]))) != 0 {
				t.Errorf("line of %c has %d bytes or is mixed, want %d", raw[0], len(raw), want)
			}
			if count == writers*each {
				_ = sender.Close()
			}
		}, nil)
		if count != writers*each {
			t.Errorf("%d lines came, want %d", count, writers*each)
		}
	})
	wg.Wait()
	_ = receiver.Close()
}

// A peer that does not read must not hold a caller beyond its deadline, nor may a line that was
// written in part destroy the connection for the others.
func TestLineConnStuckPeer(t *testing.T) {
	t.Parallel()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	conn := wire.NewLineConn(strings.NewReader(""), w, nil)
	big := bytes.Repeat([]byte("b"), 1<<20) // more than a pipe holds
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := conn.Send(ctx, big, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("Send: %v, want deadline exceeded", err)
	}
	ctx2, cancel2 := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel2()
	if err := conn.Send(ctx2, []byte("never sent"), nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("second Send: %v, want deadline exceeded", err)
	}
	sent := make(chan error)
	go func() { sent <- conn.Send(context.Background(), []byte("later"), nil) }()
	reader := wire.NewLineConn(r, nopCloser{io.Discard}, nil)
	var got []int
	for range 2 {
		line, err := reader.ReadMessage()
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, len(line))
	}
	if diff := cmp.Diff([]int{1 << 20, 5}, got); diff != "" {
		t.Errorf("line lengths differ (-want +got):\n%s", diff)
	}
	if err := <-sent; err != nil {
		t.Errorf("third Send: %v", err)
	}
	_ = conn.Close()
	_ = reader.Close()
}

func TestLineConnCloseEndsRead(t *testing.T) {
	t.Parallel()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	conn := wire.NewLineConn(r, nopCloser{io.Discard}, nil)
	done := make(chan error)
	go func() { done <- conn.Receive(context.Background(), func([]byte) {}, nil) }()
	if err := conn.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	if err := <-done; err != nil {
		t.Errorf("Receive: %v", err)
	}
	if err := conn.Send(t.Context(), []byte("{}"), nil); !errors.Is(err, wire.ErrClosed) {
		t.Errorf("Send after Close: %v, want ErrClosed", err)
	}
	_ = w.Close()
}

func FuzzLineConn(f *testing.F) {
	f.Add([]byte("{}\n\r\n[1]\r\n"), 8)
	f.Add([]byte(strings.Repeat("a", 70_000)+"\nb"), 10)
	f.Fuzz(func(t *testing.T, data []byte, limit int) {
		limit = 1 + max(limit, -limit)%100_000
		if limit <= 0 {
			limit = 1
		}
		conn := wire.NewLineConn(bytes.NewReader(data), nopCloser{io.Discard}, &wire.LineOptions{MaxMessage: limit})
		var want, got []string
		for line := range bytes.SplitSeq(data, []byte("\n")) {
			switch {
			case len(bytes.TrimRight(line, "\r\n")) > limit:
				want = append(want, "too large")
			case len(bytes.Trim(line, " \t\r")) > 0:
				want = append(want, string(bytes.TrimRight(line, " \t\r")))
			}
		}
		for {
			line, err := conn.ReadMessage()
			if errors.Is(err, wire.ErrTooLarge) {
				got = append(got, "too large")
				continue
			}
			if err != nil {
				break
			}
			got = append(got, string(line))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("lines differ (-want +got):\n%s", diff)
		}
	})
}

func ExampleLineConn() {
	in := strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"ping"}` + "\n")
	conn := wire.NewLineConn(in, os.Stdout, nil)
	raw, err := conn.ReadMessage()
	if err != nil {
		fmt.Println(err)
		return
	}
	msg, err := wire.Parse(raw, wire.Limits{})
	if err != nil {
		fmt.Println(err)
		return
	}
	_ = conn.Send(context.Background(), wire.NewResponse(msg.ID, nil), nil)
	// Output: {"jsonrpc":"2.0","id":1,"result":{}}
}
