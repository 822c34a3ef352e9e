package main

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"uuid"

	driveruuid "github.com/google/uuid"

	"github.com/chaintrail/chaintrail/audit/verify"
	"github.com/chaintrail/chaintrail/internal/query"
	"github.com/chaintrail/chaintrail/schemas"
)

// verifiedStore shows the tables of a ClickHouse to the verifier.
type verifiedStore struct{ reader *query.Reader }

const stretch = "WHERE stream = ? AND position >= ? AND position <= ? "

// Streams implements verify.Events.
func (s verifiedStore) Streams(ctx context.Context) (map[string]uint64, error) {
	type end struct {
		Stream string `ch:"stream"`
		Last   uint64 `ch:"last"`
	}
	streams := map[string]uint64{}
	for row, err := range query.Rows[end](ctx, s.reader, "(SELECT stream, max(position) AS last FROM events GROUP BY stream"+
		" UNION ALL SELECT DISTINCT stream, 0 FROM interceptions UNION ALL SELECT DISTINCT stream, 0 FROM invocations"+
		" UNION ALL SELECT DISTINCT stream, 0 FROM plans)", "") {
		if err != nil {
			return nil, err
		}
		streams[row.Stream] = max(streams[row.Stream], row.Last)
	}
	return streams, nil
}

// Control implements verify.Events.
func (s verifiedStore) Control(ctx context.Context) iter.Seq2[*verify.EventRow, error] {
	return query.Rows[verify.EventRow](ctx, s.reader, "events", "WHERE kind IN ('writer', 'checkpoint')")
}

// Chunk implements verify.Events.
func (s verifiedStore) Chunk(ctx context.Context, stream string, from, to uint64, n int) (events []verify.EventRow, last uint64, err error) {
	for row, err := range query.Rows[verify.EventRow](ctx, s.reader, "events", stretch+"ORDER BY stream, position LIMIT ? WITH TIES",
		stream, from, to, n) {
		if err != nil {
			return nil, 0, err
		}
		events = append(events, *row)
	}
	if len(events) < n {
		return events, 0, nil
	}
	return events, events[len(events)-1].Position, nil
}

func collect[T any](rows iter.Seq2[*T, error]) (all []T, err error) {
	for row, err := range rows {
		if err != nil {
			return nil, err
		}
		all = append(all, *row)
	}
	return all, nil
}

// Interceptions implements verify.Projections.
func (s verifiedStore) Interceptions(ctx context.Context, stream string, first, last uint64) ([]verify.InterceptionRow, error) {
	return collect(query.Rows[verify.InterceptionRow](ctx, s.reader, "interceptions", stretch+"ORDER BY position", stream, first, last))
}

// Invocations implements verify.Projections.
func (s verifiedStore) Invocations(ctx context.Context, stream string, first, last uint64) ([]verify.InvocationRow, error) {
	return collect(query.Rows[verify.InvocationRow](ctx, s.reader, "invocations", stretch+"ORDER BY position, plan_order", stream, first, last))
}

// Plans implements verify.Projections.
func (s verifiedStore) Plans(ctx context.Context, stream string, first, last uint64) ([]verify.PlanRow, error) {
	return collect(query.Rows[verify.PlanRow](ctx, s.reader, "plans", stretch+"ORDER BY position", stream, first, last))
}

// First implements verify.Projections.
func (s verifiedStore) First(ctx context.Context, ids []string) (map[string]uint64, error) {
	type place struct {
		ID       string `ch:"id"`
		Position uint64 `ch:"min(position)"`
	}
	first := map[string]uint64{}
	for part := range slices.Chunk(ids, maxNamed) {
		for row, err := range query.Rows[place](ctx, s.reader, "invocations", "WHERE id IN ? AND kind = 'invocation' GROUP BY id", part) {
			if err != nil {
				return nil, err
			}
			first[row.ID] = row.Position
		}
	}
	return first, nil
}

// maxNamed bounds the ids in one statement.
const maxNamed = 4096

// items reads rows of open items of both tables.
func (s verifiedStore) items(ctx context.Context, rest string, args ...any) ([]verify.ContextRow, error) {
	rows, err := collect(query.Rows[verify.ContextRow](ctx, s.reader, "open_items", rest, args...))
	if err != nil {
		return nil, err
	}
	for row, err := range query.Rows[verify.ItemColumns](ctx, s.reader, "bodies", rest, args...) {
		if err != nil {
			return nil, err
		}
		rows = append(rows, verify.ContextRow{ItemColumns: *row})
	}
	return rows, nil
}

// Items implements verify.Items.
func (s verifiedStore) Items(ctx context.Context, stream string, first, last uint64, from, until schemas.Time) ([]verify.ContextRow, error) {
	return s.items(ctx, "WHERE time >= fromUnixTimestamp64Micro(?, 'UTC') AND time <= fromUnixTimestamp64Micro(?, 'UTC') AND event_id IN (SELECT event_id FROM events "+
		stretch+")", int64(from), int64(until), stream, first, last)
}

// ItemsOf implements verify.Items.
func (s verifiedStore) ItemsOf(ctx context.Context, events []uuid.UUID) ([]verify.ContextRow, error) {
	var all []verify.ContextRow
	for part := range slices.Chunk(events, maxNamed) {
		ids := make([]driveruuid.UUID, len(part))
		for i, id := range part {
			ids[i] = driveruuid.UUID(id)
		}
		rows, err := s.items(ctx, "WHERE event_id IN ?", ids)
		if err != nil {
			return nil, err
		}
		all = append(all, rows...)
	}
	return all, nil
}

// Strays implements verify.Items.
func (s verifiedStore) Strays(ctx context.Context, n int) ([]verify.ItemColumns, error) {
	var all []verify.ItemColumns
	for _, table := range []string{"open_items", "bodies"} {
		rows, err := collect(query.Rows[verify.ItemColumns](ctx, s.reader, table,
			"WHERE (event_id, time) NOT IN (SELECT event_id, time FROM events) LIMIT ?", n))
		if err != nil {
			return nil, err
		}
		all = append(all, rows...)
	}
	return all, nil
}

// Stored implements verify.Items.
func (s verifiedStore) Stored(ctx context.Context) (rows uint64, until schemas.Time, err error) {
	type end struct {
		Rows  uint64       `ch:"n"`
		Until schemas.Time `ch:"until"`
	}
	for row, err := range query.Rows[end](ctx, s.reader, "(SELECT count() AS n, max(published) AS until FROM"+
		" (SELECT published FROM open_items UNION ALL SELECT published FROM bodies))", "") {
		if err != nil {
			return 0, 0, err
		}
		rows, until = row.Rows, row.Until
	}
	return rows, until, nil
}

// events counts them.
func (s verifiedStore) events(ctx context.Context) (n uint64, err error) {
	type size struct {
		N uint64 `ch:"count()"`
	}
	for row, err := range query.Rows[size](ctx, s.reader, "events", "") {
		if err != nil {
			return 0, fmt.Errorf("count events: %w", err)
		}
		n = row.N
	}
	return n, nil
}

// leaves is the number of leaves that the store has of a stream.
func (s verifiedStore) leaves(ctx context.Context, stream string) (n uint64, err error) {
	type size struct {
		N uint64 `ch:"count()"`
	}
	for row, err := range query.Rows[size](ctx, s.reader, "events", "WHERE stream = ? AND kind != 'checkpoint'", stream) {
		if err != nil {
			return 0, fmt.Errorf("count events: %w", err)
		}
		n = row.N
	}
	return n, nil
}
