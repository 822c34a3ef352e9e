package bus

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/chaintrail/chaintrail/schemas"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

// getQuery asks a stream directly for messages in order, without a consumer.
type getQuery struct {
	Seq       uint64     `json:"seq,omitzero"`          // from this position on
	StartTime *time.Time `json:"start_time,omitzero"`   // or from this time on
	Filter    string     `json:"next_by_subj,omitzero"` // only these subjects
	Last      string     `json:"last_by_subj,omitzero"` // in place of all else: the last one of these subjects
	Batch     int        `json:"batch,omitzero"`        // at most so many, 1 to 1000
	MaxBytes  int        `json:"max_bytes,omitzero"`
}

const getTimeout = 20 * time.Second

// get calls take for each message found until take has enough; none found is no error.
func get(ctx context.Context, js jetstream.JetStream, stream string, query getQuery, take func(schemas.Message) (more bool)) error {
	body, err := jsonx.Marshal(&query)
	if err != nil {
		return fmt.Errorf("get from %s: %w", stream, err)
	}
	return ask(ctx, js, stream, [][]byte{body}, query.Batch+1, func(m *nats.Msg) (bool, error) {
		if status := m.Header.Get("Status"); status == "204" || status == "404" { // end of batch, nothing there
			return false, nil
		}
		got, err := directMessage(m)
		return err == nil && take(got), err
	})
}

// getEach is get for a few neighbouring positions: the server finds each of them at once, where a query
// with a filter makes it count what lies behind. Messages may come in any order.
func getEach(ctx context.Context, js jetstream.JetStream, stream string, in span, take func(schemas.Message)) error {
	var bodies [][]byte
	for position := in.first; position <= in.last; position++ {
		bodies = append(bodies, []byte(`{"seq":`+number(position)+`}`))
	}
	left := len(bodies)
	return ask(ctx, js, stream, bodies, left, func(m *nats.Msg) (bool, error) {
		left--
		if m.Header.Get("Status") == "404" {
			return left > 0, nil
		}
		got, err := directMessage(m)
		if err == nil {
			take(got)
		}
		return err == nil && left > 0, err
	})
}

// ask sends queries to a stream and hands on at most answers messages, until take has enough.
func ask(ctx context.Context, js jetstream.JetStream, stream string, queries [][]byte, answers int, take func(*nats.Msg) (more bool, err error)) error {
	nc := js.Conn()
	in := make(chan *nats.Msg, answers+1)
	sub, err := nc.ChanSubscribe(nats.NewInbox(), in)
	if err != nil {
		return fmt.Errorf("get from %s: %w", stream, err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	states := watch(nc)
	defer nc.RemoveStatusListener(states)
	subject := apiSubject(js, "DIRECT.GET."+stream)
	for _, query := range queries {
		if err := nc.PublishRequest(subject, sub.Subject, query); err != nil {
			return fmt.Errorf("get from %s: %w", stream, err)
		}
	}
	timer := time.NewTimer(getTimeout)
	defer timer.Stop()
	for {
		select {
		case m := <-in:
			if status := m.Header.Get("Status"); status != "" && status != "204" && status != "404" && len(m.Data) == 0 {
				return fmt.Errorf("get from %s: status %s %.100q", stream, status, m.Header.Get("Description"))
			}
			if more, err := take(m); err != nil || !more {
				return err
			}
		case <-states:
			return fmt.Errorf("get from %s: %w", stream, errCut)
		case <-ctx.Done():
			return fmt.Errorf("get from %s: %w", stream, context.Cause(ctx))
		case <-timer.C:
			return fmt.Errorf("get from %s: %w", stream, nats.ErrTimeout)
		}
	}
}

func directMessage(m *nats.Msg) (schemas.Message, error) {
	position, err := strconv.ParseUint(m.Header.Get(jetstream.SequenceHeader), 10, 64)
	if err != nil {
		return schemas.Message{}, fmt.Errorf("%w: %s %.100q", ErrHeader, jetstream.SequenceHeader, m.Header.Get(jetstream.SequenceHeader))
	}
	published, err := time.Parse(time.RFC3339Nano, m.Header.Get(jetstream.TimeStampHeaer))
	if err != nil {
		return schemas.Message{}, fmt.Errorf("%w: %s: %w", ErrHeader, jetstream.TimeStampHeaer, err)
	}
	return schemas.Message{
		Position: position, Subject: m.Header.Get(jetstream.SubjectHeader), Header: m.Header, Data: m.Data, Published: published.UTC(),
	}, nil
}

// getFromLeader is get by way of the stream's leader, one message after the other. A direct get may be answered by a
// replica that lags; what it does not have need not be missing.
func getFromLeader(ctx context.Context, js jetstream.JetStream, stream, filter string, in span, take func(schemas.Message) (more bool)) error {
	for at := in.first; at <= in.last; {
		m, err := askLeader(ctx, js, stream, getQuery{Seq: at, Filter: filter})
		if err != nil || m == nil || m.Sequence > in.last {
			return err
		}
		if !take(schemas.Message{Position: m.Sequence, Subject: m.Subject, Header: m.Header, Data: m.Data, Published: m.Time.UTC()}) {
			return nil
		}
		at = m.Sequence + 1
	}
	return nil
}

// askLeader returns what the leader of a stream has for a query; nil when there is no such message.
func askLeader(ctx context.Context, js jetstream.JetStream, stream string, query getQuery) (*jetstream.RawStreamMsg, error) {
	return leaderMessage(js, stream, query, func(m *nats.Msg) (*nats.Msg, error) {
		return call(ctx, js.Conn(), m, getTimeout)
	})
}

// leaderMessage is askLeader by way of ask.
func leaderMessage(js jetstream.JetStream, stream string, query getQuery, ask func(*nats.Msg) (*nats.Msg, error)) (*jetstream.RawStreamMsg, error) {
	body, err := jsonx.Marshal(&query)
	if err != nil {
		return nil, fmt.Errorf("get from %s: %w", stream, err)
	}
	reply, err := ask(&nats.Msg{Subject: apiSubject(js, "STREAM.MSG.GET."+stream), Data: body})
	if err != nil {
		return nil, fmt.Errorf("get from %s: %w", stream, err)
	}
	m, err := storedMessage(reply.Data)
	if err != nil {
		return nil, fmt.Errorf("get from %s: %w", stream, err)
	}
	return m, nil
}

// storedMessage reads the answer of a stream's leader; nil when there is no such message.
func storedMessage(reply []byte) (*jetstream.RawStreamMsg, error) {
	var answer struct {
		Error   *jetstream.APIError `json:"error"`
		Message *struct {
			Subject string    `json:"subject"`
			Seq     uint64    `json:"seq"`
			Time    time.Time `json:"time"`
			Header  []byte    `json:"hdrs"`
			Data    []byte    `json:"data"`
		} `json:"message"`
	}
	if err := jsonx.Unmarshal(reply, &answer); err != nil {
		return nil, fmt.Errorf("answer: %w", err)
	}
	if answer.Error != nil {
		if answer.Error.ErrorCode == jetstream.JSErrCodeMessageNotFound {
			return nil, nil
		}
		return nil, answer.Error
	}
	if answer.Message == nil || answer.Message.Seq == 0 {
		return nil, errors.ErrUnsupported
	}
	m := &jetstream.RawStreamMsg{Subject: answer.Message.Subject, Sequence: answer.Message.Seq, Time: answer.Message.Time, Data: answer.Message.Data}
	if len(answer.Message.Header) > 0 {
		var err error
		if m.Header, err = nats.DecodeHeadersMsg(answer.Message.Header); err != nil {
			return nil, fmt.Errorf("headers: %w", err)
		}
	}
	return m, nil
}
