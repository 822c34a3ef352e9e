package main

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/chaintrail/chaintrail/schemas"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
	"github.com/chaintrail/chaintrail/schemas/seal"
)

// stored is everything ClickHouse knows, read back once.
type stored struct {
	exchangesOf map[string]map[string]bool // token → exchanges with a request body that holds it
	outcomes    map[string][]string        // exchange → outcomes, one for each row
	invocations map[string]int             // invocation id → final results
	events      []schemas.Event
	forged      int // events whose hash or link does not hold, or that are no events
	doubled     int // further rows with a writer and seq seen before
	holes       int // missing seqs below a writer's highest
	misplaced   int // rows whose leaf is not their place in the stream
	unsealed    int // events that are not under the newest head
	otherRoot   int // 1: that head is of another tree
}

// judge waits until the tables no longer change, or hold everything, and compares with the oracle.
func judge(ctx context.Context, s *stack, executed map[string]int, a answers) (verdict, error) {
	info, err := s.runtime("engine")
	if err != nil {
		return verdict{}, err
	}
	opts, err := clickhouse.ParseDSN(info.EngineDSN)
	if err != nil {
		return verdict{}, err
	}
	conn, err := clickhouse.Open(opts)
	if err != nil {
		return verdict{}, err
	}
	defer conn.Close() //nolint:errcheck // read only
	// Late work goes on for as long as something comes.
	deadline := time.Now().Add(3 * time.Minute)
	var last verdict
	quiet := 0
	for {
		st, err := read(ctx, conn, s.data)
		if err != nil {
			return verdict{}, fmt.Errorf("read back: %w", err)
		}
		v := compare(st, executed, a)
		if v == last {
			quiet++
		} else {
			quiet = 0
		}
		last = v
		// A clean verdict must hold for a second too: late duplicates would come after it.
		if v.clean() && quiet >= 4 || quiet >= 40 || time.Now().After(deadline) {
			return v, nil
		}
		wait(ctx, 250*time.Millisecond)
		if ctx.Err() != nil {
			return v, ctx.Err()
		}
	}
}

var tokenRE = regexp.MustCompile(`tok-\d{8}-end`)

func read(ctx context.Context, conn driver.Conn, data string) (stored, error) {
	st := stored{exchangesOf: map[string]map[string]bool{}, outcomes: map[string][]string{}, invocations: map[string]int{}}
	err := errors.Join(
		each(ctx, conn, "SELECT toString(exchange_id), data FROM bodies WHERE kind = 'request' AND role = 'payload.before'", func(exchange, data string) {
			if token := tokenRE.FindString(data); token != "" {
				if st.exchangesOf[token] == nil {
					st.exchangesOf[token] = map[string]bool{}
				}
				st.exchangesOf[token][exchange] = true
			}
		}),
		each(ctx, conn, "SELECT toString(exchange_id), toString(outcome) FROM exchanges", func(exchange, outcome string) {
			st.outcomes[exchange] = append(st.outcomes[exchange], outcome)
		}),
		each(ctx, conn, "SELECT id, toString(state) FROM invocations", func(id, _ string) { st.invocations[id]++ }),
	)
	if err != nil {
		return st, err
	}
	return st, errors.Join(st.readEvents(ctx, conn), st.readLeaves(ctx, conn, data))
}

func each(ctx context.Context, conn driver.Conn, sql string, row func(a, b string)) error {
	rows, err := conn.Query(ctx, sql)
	if err != nil {
		return err
	}
	defer rows.Close() //nolint:errcheck // rows.Err tells
	for rows.Next() {
		var a, b string
		if err := rows.Scan(&a, &b); err != nil {
			return err
		}
		row(a, b)
	}
	return rows.Err()
}

// readEvents checks each writer's chain from the raw bytes, trusting no typed column.
func (st *stored) readEvents(ctx context.Context, conn driver.Conn) error {
	lastHash, lastSeq := map[string]seal.Hash{}, map[string]uint64{}
	return each(ctx, conn, "SELECT raw, '' FROM events ORDER BY writer, seq", func(raw, _ string) {
		var e schemas.Event
		if err := jsonx.Unmarshal([]byte(raw), &e); err != nil {
			st.forged++
			return
		}
		writer := e.Writer.String()
		switch seq := lastSeq[writer]; {
		case e.Seq == seq:
			st.doubled++
			return
		case e.Seq > seq+1:
			st.holes += int(e.Seq - seq - 1) //nolint:gosec // G115: a count of this run
		case e.PrevHash != lastHash[writer]:
			st.forged++
		}
		lastSeq[writer], lastHash[writer] = e.Seq, seal.Event([]byte(raw))
		st.events = append(st.events, e)
	})
}
