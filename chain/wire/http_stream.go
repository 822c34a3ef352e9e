package wire

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"time"

	"github.com/chaintrail/chaintrail/internal/retry"
)

const (
	maxResumes  = 5               // GETs without progress that try to get a lost answer
	drainLimit  = time.Second     // how long a stream may stay open behind its answer
	resumePause = 1 * time.Second // where the server names no retry
)

// readStream reads the SSE answer of a POST until the answer came. A stream that breaks before, and
// had event ids, is resumed by GET.
func (c *HTTPClient) readStream(
	ctx context.Context, f *flight, resp *http.Response, msg outgoing, deliver func([]byte),
) (draining bool, err error) {
	lastID, pause := "", resumePause
	for resumes := 0; ; resumes++ {
		events := NewSSEReader(resp.Body, c.opts.MaxMessage)
		events.lastID = lastID
		done, err := c.readEvents(events, msg, &pause, deliver)
		if done {
			f.detach()
			go c.drain(f, events, resp.Body) // exits as drain says; Close waits for it
			return true, nil
		}
		_ = resp.Body.Close()
		if ctx.Err() != nil {
			return false, context.Cause(ctx)
		}
		if errors.Is(err, ErrTooLarge) {
			return false, err
		}
		if events.lastID != lastID { // progress
			lastID, resumes = events.lastID, 0
		}
		if lastID == "" || !msg.isCall() || resumes >= maxResumes {
			return false, fmt.Errorf("%w: %w", ErrNoAnswer, err)
		}
		if !retry.Sleep(ctx, pause) {
			return false, context.Cause(ctx)
		}
		if resp, err = c.openStream(ctx, lastID); err != nil {
			return false, fmt.Errorf("%w: %w", ErrNoAnswer, err)
		}
	}
}

// readEvents delivers what comes; done means that the answer to msg was among it.
func (c *HTTPClient) readEvents(
	events *SSEReader, msg outgoing, pause *time.Duration, deliver func([]byte),
) (done bool, err error) {
	for {
		ev, err := events.Next()
		if err != nil {
			return false, err
		}
		if ev.Retry > 0 {
			*pause = min(ev.Retry, 30*time.Second)
		}
		if len(ev.Data) == 0 || (ev.Type != "" && ev.Type != "message") {
			continue
		}
		if msg.isCall() && answers(ev.Data, msg.id) {
			c.learn(ev.Data, msg)
			deliver(ev.Data)
			return true, nil
		}
		deliver(ev.Data)
	}
}

// drain reads the end of a stream behind its answer, so that the connection can be used again. It
// exits at the end of the stream, after drainLimit, or by Close.
func (c *HTTPClient) drain(f *flight, events *SSEReader, body io.ReadCloser) {
	defer c.finish(f)
	limit := time.AfterFunc(drainLimit, f.cancel)
	defer limit.Stop()
	_, _ = io.Copy(io.Discard, events.in)
	_ = body.Close()
}

// openStream makes a GET for events of the session.
func (c *HTTPClient) openStream(ctx context.Context, lastID string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.url, nil)
	if err != nil {
		return nil, retry.Permanent(fmt.Errorf("open stream: %w", err))
	}
	session, version := c.state()
	c.setHeaders(req, session, version)
	req.Header.Set("Accept", ContentSSE)
	if lastID != "" {
		req.Header.Set(HeaderLastEventID, lastID)
	}
	resp, err := c.opts.Client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("open stream: %w", err)
	}
	content, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if resp.StatusCode == http.StatusOK && content == ContentSSE {
		return resp, nil
	}
	_ = resp.Body.Close()
	err = fmt.Errorf("open stream: %w", statusError(resp))
	if resp.StatusCode == http.StatusNotFound && session != "" {
		return nil, retry.Permanent(ErrSessionLost)
	}
	if resp.StatusCode/100 == 2 || resp.StatusCode/100 == 4 && resp.StatusCode != http.StatusTooManyRequests {
		return nil, retry.Permanent(err) // 405: the server has no such stream
	}
	return nil, err
}

// Receive keeps the session's GET stream open if HTTPOptions.Listen asks for it, and delivers what
// it carries; answers to requests come through Send. When the session is lost it waits for the next
// one: the next call says that there is need of it. It returns when the client is closed or ctx is
// done.
func (c *HTTPClient) Receive(ctx context.Context, deliver func([]byte), skipped func(error)) error {
	if !c.opts.Listen {
		return c.waitClosed(ctx)
	}
	ctx, f, err := c.begin(ctx)
	if err != nil {
		return nil // it is closed: the orderly end
	}
	defer c.finish(f)
	for {
		select {
		case <-c.ready:
			c.listen(ctx, deliver, skipped)
		case <-ctx.Done():
			return nil
		}
	}
}

// listen returns when the session is lost, the server has no GET stream, or ctx is done.
func (c *HTTPClient) listen(ctx context.Context, deliver func([]byte), skipped func(error)) {
	lastID := ""
	// The error only says which of the three it was.
	_ = retry.Do(ctx, retry.Policy{Max: 10 * time.Second}, func(ctx context.Context) error {
		resp, err := c.openStream(ctx, lastID)
		if err != nil {
			return err
		}
		defer func() { _ = resp.Body.Close() }()
		events := NewSSEReader(resp.Body, c.opts.MaxMessage)
		events.lastID = lastID
		pause := time.Duration(0)
		for {
			_, err := c.readEvents(events, outgoing{}, &pause, deliver)
			lastID = events.lastID
			if !errors.Is(err, ErrTooLarge) {
				return retry.After(fmt.Errorf("%w: %w", errStreamClosed, err), pause)
			}
			if skipped != nil {
				skipped(err)
			}
		}
	})
}

// Synchronous tells that Send returns with the answer, not when the message is written.
func (c *HTTPClient) Synchronous() bool { return true }

func (c *HTTPClient) waitClosed(ctx context.Context) error {
	select {
	case <-ctx.Done():
	case <-c.closed:
	}
	return nil
}
