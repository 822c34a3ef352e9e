package bus

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

const (
	headerBatch       = "Nats-Batch-Id"
	headerBatchSeq    = "Nats-Batch-Sequence"
	headerBatchCommit = "Nats-Batch-Commit"

	maxBatch = 1000 // the server's limit for one atomic batch

	// The server's numbers for "another last sequence", with and without the number it has.
	codeWrongLast      jetstream.ErrorCode = 10071
	codeWrongLastConst jetstream.ErrorCode = 10164
	codeIncomplete     jetstream.ErrorCode = 10176
)

// lane publishes one writer's messages to one stream, all or nothing at a time, and only if the writer's
// last message there is the expected one. Not for concurrent use.
type lane struct {
	js      jetstream.JetStream
	call    *caller // set by open
	stream  string
	filter  string // the writer's subjects
	timeout time.Duration
	careful bool // ask for the reason at the first message: the last try was incomplete

	single, batch time.Duration // what one message alone, and what the making of a batch has taken lately
}

const (
	firstSingle  = 100 * time.Microsecond
	firstBatch   = 10 * time.Millisecond
	batchedCost  = 20 * time.Microsecond // of one message within a batch
	fewestBatch  = 4
	longestBatch = time.Second
)

// portion returns how many of n waiting messages to send at once: all, or one. A batch costs the server
// several milliseconds whatever its size, as it is stored aside first, so that with a server nearby up
// to a hundred messages go faster one by one. Order and refusal of replays are the same in both ways.
func (l *lane) portion(n int) int {
	if l.single == 0 {
		l.single, l.batch = firstSingle, firstBatch
	}
	if n < fewestBatch || time.Duration(n)*(l.single-batchedCost) < l.batch {
		return 1
	}
	return n
}

// took notes how long sending n messages has taken.
func (l *lane) took(n int, d time.Duration) {
	if n == 1 {
		l.single += (min(d, longestBatch) - l.single) / 8
		return
	}
	l.batch += (min(max(d-time.Duration(n)*batchedCost, time.Millisecond), longestBatch) - l.batch) / 4
}

// open gets the lane ready; close it at the end.
func (l *lane) open() (err error) {
	l.call, err = newCaller(l.js.Conn())
	return err
}

func (l *lane) close() { l.call.close() }

type pubAck struct {
	Stream string              `json:"stream"`
	Seq    uint64              `json:"seq"`
	Batch  string              `json:"batch"`
	Count  uint64              `json:"count"`
	Error  *jetstream.APIError `json:"error"`
}

// send publishes 1 to maxBatch messages after the writer's message at position expect (0: none) and
// returns the position of the last; the others lie directly before it. [ErrRefused] means that nothing
// was stored by this call; any other error leaves that open.
func (l *lane) send(ctx context.Context, msgs []*nats.Msg, expect uint64) (last uint64, err error) {
	begin := time.Now()
	msgs[0].Header[jetstream.ExpectedLastSubjSeqHeader] = []string{strconv.FormatUint(expect, 10)}
	msgs[0].Header[jetstream.ExpectedLastSubjSeqSubjHeader] = []string{l.filter}
	final := msgs[len(msgs)-1]
	id := ""
	if len(msgs) > 1 {
		id = nuid.Next()
		for i, m := range msgs {
			m.Header[headerBatch] = []string{id}
			m.Header[headerBatchSeq] = []string{strconv.Itoa(i + 1)}
		}
		final.Header[headerBatchCommit] = []string{"1"}
		if err := l.begin(ctx, msgs[:len(msgs)-1]); err != nil {
			return 0, err
		}
	}
	reply, err := l.call.do(ctx, final, l.timeout)
	if err != nil {
		return 0, fmt.Errorf("publish to %s: %w", l.stream, err)
	}
	var ack pubAck
	if err := jsonx.Unmarshal(reply.Data, &ack); err != nil {
		return 0, fmt.Errorf("publish to %s: answer: %w", l.stream, err)
	}
	if ack.Error != nil {
		l.careful = ack.Error.ErrorCode == codeIncomplete
		return 0, l.refusal(ack.Error)
	}
	if ack.Stream != l.stream || ack.Seq == 0 || ack.Batch != id || (id != "" && ack.Count != uint64(len(msgs))) {
		return 0, fmt.Errorf("publish to %s: the answer is for stream %q, batch of %d at %d", l.stream, ack.Stream, ack.Count, ack.Seq)
	}
	l.careful = false
	l.took(len(msgs), time.Since(begin))
	return ack.Seq, nil
}

// begin sends all but the last message of a batch. The server answers only those that ask for it, and
// reports what went wrong with the others at the end, without the reason.
func (l *lane) begin(ctx context.Context, msgs []*nats.Msg) error {
	for i, m := range msgs {
		if i > 0 || !l.careful {
			if err := l.js.Conn().PublishMsg(m); err != nil {
				return fmt.Errorf("publish to %s: %w", l.stream, err)
			}
			continue
		}
		reply, err := l.call.do(ctx, m, l.timeout)
		if err != nil {
			return fmt.Errorf("publish to %s: %w", l.stream, err)
		}
		var ack pubAck
		if len(reply.Data) > 0 && jsonx.Unmarshal(reply.Data, &ack) == nil && ack.Error != nil {
			return l.refusal(ack.Error)
		}
	}
	return nil
}

func (l *lane) refusal(err *jetstream.APIError) error {
	if err.ErrorCode == codeWrongLast || err.ErrorCode == codeWrongLastConst {
		return fmt.Errorf("publish to %s: %w: %w", l.stream, ErrRefused, err)
	}
	return fmt.Errorf("publish to %s: %w", l.stream, err)
}

// last returns the writer's last message in the stream, nil if there is none. It asks the stream's
// leader: a direct get might be answered by a replica that lags.
func (l *lane) last(ctx context.Context) (*jetstream.RawStreamMsg, error) {
	return leaderMessage(l.js, l.stream, getQuery{Last: l.filter}, func(m *nats.Msg) (*nats.Msg, error) {
		return l.call.do(ctx, m, l.timeout)
	})
}

// state returns the first and last positions of the stream.
func (l *lane) state(ctx context.Context) (first, last uint64, err error) {
	reply, err := l.call.do(ctx, &nats.Msg{Subject: apiSubject(l.js, "STREAM.INFO."+l.stream)}, l.timeout)
	if err != nil {
		return 0, 0, fmt.Errorf("state of %s: %w", l.stream, err)
	}
	var answer struct {
		Error *jetstream.APIError `json:"error"`
		State *struct {
			First uint64 `json:"first_seq"`
			Last  uint64 `json:"last_seq"`
		} `json:"state"`
	}
	if err := jsonx.Unmarshal(reply.Data, &answer); err != nil {
		return 0, 0, fmt.Errorf("state of %s: answer: %w", l.stream, err)
	}
	switch {
	case answer.Error != nil:
		return 0, 0, fmt.Errorf("state of %s: %w", l.stream, answer.Error)
	case answer.State == nil:
		return 0, 0, fmt.Errorf("state of %s: %w", l.stream, errors.ErrUnsupported)
	}
	return answer.State.First, answer.State.Last, nil
}
