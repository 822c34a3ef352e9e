package clickhouse

import (
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"time"
	"uuid"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	driveruuid "github.com/google/uuid"

	"github.com/chaintrail/chaintrail/schemas"
	"github.com/chaintrail/chaintrail/schemas/seal"
	"github.com/chaintrail/chaintrail/sinks"
)

// knownWriters bounds what is remembered; beyond it everything is asked anew.
const knownWriters = 100_000

// known tells what is stored already: by the highest number of each writer, and by looking into the tables for whatever
// is not above that. The tables are the memory, so that even the loss of a cursor doubles nothing. Not for concurrent use.
type known struct {
	conn driver.Conn
	open bool                 // open items instead of events
	last map[uuid.UUID]uint64 // highest number of each writer met so far
}

// key names an entry among all.
type key struct {
	writer uuid.UUID
	seq    uint64
	part   string
}

func keyOf(e *sinks.Entry) key {
	writer, seq := e.Writer()
	return key{writer, seq, e.Part()}
}

// classify is sinks.Sink.Classify without retries: it changes nothing when it fails.
func (k *known) classify(ctx context.Context, entries []sinks.Entry) ([]sinks.Verdict, error) {
	if len(k.last) > knownWriters {
		clear(k.last)
	}
	if err := k.meet(ctx, entries); err != nil {
		return nil, err
	}
	stored, err := k.lookUp(ctx, entries)
	if err != nil {
		return nil, err
	}
	verdicts := make([]sinks.Verdict, len(entries))
	for i := range entries {
		e := &entries[i]
		at := keyOf(e)
		last := k.last[at.writer]
		hash, found := stored[at]
		switch {
		case found && (k.open || hash == e.Hash):
			verdicts[i] = sinks.VerdictDuplicate
			continue
		case found:
			verdicts[i] = sinks.VerdictFork
			continue
		case !k.open && at.seq > last+1:
			verdicts[i] = sinks.VerdictHole
		}
		stored[at] = e.Hash
		k.last[at.writer] = max(last, at.seq)
	}
	return verdicts, nil
}

// meet asks for the highest stored number of each writer that was not met yet.
func (k *known) meet(ctx context.Context, entries []sinks.Entry) error {
	fresh := map[uuid.UUID]uint64{}
	var names []driveruuid.UUID
	for i := range entries {
		writer, _ := entries[i].Writer()
		if _, ok := k.last[writer]; ok {
			continue
		}
		if _, ok := fresh[writer]; !ok {
			fresh[writer] = 0
			names = append(names, driveruuid.UUID(writer))
		}
	}
	if len(names) == 0 {
		return nil
	}
	query := "SELECT writer, max(seq) FROM events WHERE writer IN ? GROUP BY writer"
	args := []any{names}
	if k.open {
		query = "SELECT writer, max(seq) FROM (SELECT writer, seq FROM bodies WHERE writer IN ? UNION ALL " +
			"SELECT writer, seq FROM open_items WHERE writer IN ?) GROUP BY writer"
		args = []any{names, names}
	}
	rows, err := k.conn.Query(large(ctx), query, args...)
	if err != nil {
		return fmt.Errorf("look up writers: %w", err)
	}
	err = each(rows, func() error {
		var writer driveruuid.UUID
		var last uint64
		if err := rows.Scan(&writer, &last); err != nil {
			return err
		}
		fresh[uuid.UUID(writer)] = last
		return nil
	})
	if err != nil {
		return fmt.Errorf("look up writers: %w", err)
	}
	maps.Copy(k.last, fresh)
	return nil
}

// lookUp returns which of the entries that are not above their writer's highest number are stored, with their hashes.
func (k *known) lookUp(ctx context.Context, entries []sinks.Entry) (map[key]seal.Hash, error) {
	stored := make(map[key]seal.Hash, len(entries))
	writers := map[uuid.UUID]bool{}
	seqs := map[uint64]bool{}
	for i := range entries {
		writer, seq := entries[i].Writer()
		if seq <= k.last[writer] {
			writers[writer], seqs[seq] = true, true
		}
	}
	if len(seqs) == 0 {
		return stored, nil
	}
	names, numbers := make([]driveruuid.UUID, 0, len(writers)), make([]uint64, 0, len(seqs))
	for w := range writers {
		names = append(names, driveruuid.UUID(w))
	}
	for s := range seqs {
		numbers = append(numbers, s)
	}
	query := "SELECT writer, seq, '', hash FROM events WHERE writer IN ? AND seq IN ?"
	args := []any{names, numbers}
	if k.open {
		const part = "SELECT writer, seq, concat(role, if(idx = 0, '', concat('.', toString(idx))), '/', toString(part)), salt FROM "
		query = part + "bodies WHERE writer IN ? AND seq IN ? UNION ALL " + part + "open_items WHERE writer IN ? AND seq IN ?"
		args = []any{names, numbers, names, numbers}
	}
	rows, err := k.conn.Query(large(ctx), query, args...)
	if err != nil {
		return nil, fmt.Errorf("look up events: %w", err)
	}
	err = each(rows, func() error {
		var writer driveruuid.UUID
		var at key
		var hash []byte
		if err := rows.Scan(&writer, &at.seq, &at.part, &hash); err != nil {
			return err
		}
		at.writer = uuid.UUID(writer)
		var h seal.Hash
		copy(h[:], hash)
		stored[at] = h
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("look up events: %w", err)
	}
	return stored, nil
}

// clockMargin is how much the clocks of a gateway and a consumer may differ without a result being looked for in vain.
const clockMargin = time.Hour

// results returns which results of deferred work are stored already. Two results of one invocation come about when its
// worker, or the bus, died between the journal and the acknowledgement. Nothing in the second one tells: after the
// death of the bus even the count of deliveries begins anew.
func (k *known) results(ctx context.Context, entries []sinks.Entry) (map[string]bool, error) {
	have := map[string]bool{}
	var asked []string
	names := map[string]bool{}
	oldest := time.Now()
	for i := range entries {
		event := entries[i].Event
		if event.Kind != schemas.KindInvocation {
			continue
		}
		for n := range event.Invocations {
			asked = append(asked, event.Invocations[n].ID)
			names[event.Invocations[n].Interceptor] = true
		}
		if began := bornAt(event); began.Before(oldest) {
			oldest = began
		}
	}
	if len(asked) == 0 {
		return have, nil
	}
	// The first result cannot be older than what it is about: that keeps the look-up to the newest granules.
	rows, err := k.conn.Query(large(ctx), "SELECT DISTINCT id FROM invocations WHERE interceptor IN ? AND "+
		"time >= fromUnixTimestamp64Micro(?, 'UTC') AND id IN ? AND kind = 'invocation'",
		slices.Collect(maps.Keys(names)), oldest.Add(-clockMargin).UnixMicro(), asked)
	if err != nil {
		return nil, fmt.Errorf("look up invocations: %w", err)
	}
	err = each(rows, func() error {
		var id string
		if err := rows.Scan(&id); err != nil {
			return err
		}
		have[id] = true
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("look up invocations: %w", err)
	}
	return have, nil
}

// bornAt is when the interception that a result is about was recorded: its id is a UUIDv7 (RFC 9562), which begins with
// milliseconds since the Unix epoch.
func bornAt(event *schemas.Event) time.Time {
	id := uuid.Nil()
	if event.Correlation != nil {
		id = event.Correlation.Interception
	}
	if id[6]>>4 != 7 {
		return time.Unix(0, 0)
	}
	return time.UnixMilli(int64(binary.BigEndian.Uint64(id[:8]) >> 16)) // 48 bits
}

// large lets a query name a whole batch.
func large(ctx context.Context) context.Context {
	return clickhouse.Context(ctx, clickhouse.WithSettings(clickhouse.Settings{
		"max_query_size": 64 << 20, "max_ast_elements": 1_000_000, "max_expanded_ast_elements": 2_000_000,
	}))
}
