package query

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"
	"uuid"

	driveruuid "github.com/google/uuid" // the driver's UUID column gives no other type

	"github.com/chaintrail/chaintrail/schemas"
)

// Exchange is one MCP operation with its outcome.
type Exchange struct {
	ID            uuid.UUID       `json:"id"`
	Started       time.Time       `json:"started"`
	Ended         time.Time       `json:"ended"`
	Tenant        string          `json:"tenant"`
	Gateway       string          `json:"gateway,omitzero"`
	Server        string          `json:"server"`
	Method        string          `json:"method"`
	Target        string          `json:"target,omitzero"` // as asked for, where that is kept; else as listed
	Outcome       schemas.Outcome `json:"outcome"`
	Status        schemas.Status  `json:"status"`
	AbortedAt     string          `json:"aborted_at,omitzero"`
	Cause         string          `json:"cause,omitzero"`
	Reason        string          `json:"reason,omitzero"` // what the caller was told, where that is kept
	IsError       bool            `json:"is_error,omitzero"`
	ErrorCode     int64           `json:"error_code,omitzero"`
	PrincipalType string          `json:"principal_type,omitzero"`
	Principal     string          `json:"principal,omitzero"` // clear, where that is kept; else the pseudonym
	Session       string          `json:"session,omitzero"`   // pseudonym
	Client        string          `json:"client,omitzero"`
	Interceptors  uint32          `json:"interceptors"` // in the plan of the response
	Bytes         uint64          `json:"bytes"`        // of the answer
	TotalUS       int64           `json:"total_us"`
	ChainUS       int64           `json:"chain_us"` // response phase
	BackendUS     int64           `json:"backend_us"`
	Stream        string          `json:"stream"`
	Position      uint64          `json:"position"`
}

const exchangeColumns = "exchange_id, started_at, time, tenant, gateway, server, event, target, outcome, status, aborted_at, cause, " +
	"is_error, error_code, principal_type, principal_ref, session, interceptors, bytes_after, total_us, chain_us, backend_us, stream, position"

// Search returns the exchanges that a filter means, newest first.
func (r *Reader) Search(ctx context.Context, f Filter) ([]Exchange, error) {
	w, err := f.where()
	if err != nil {
		return nil, err
	}
	limit, err := f.limit()
	if err != nil {
		return nil, err
	}
	return r.exchanges(ctx, "SELECT "+exchangeColumns+" FROM exchanges WHERE "+w.String()+" ORDER BY time DESC, exchange_id LIMIT ?",
		append(w.args, limit)...)
}

// Cursor is how far a follower has read: the last position of each stream.
type Cursor map[string]uint64

// Now returns the cursor after everything that is stored.
func (r *Reader) Now(ctx context.Context) (Cursor, error) {
	rows, err := r.query(ctx, "SELECT stream, max(position) FROM exchanges GROUP BY stream LIMIT 1000")
	if err != nil {
		return nil, err
	}
	cursor := Cursor{}
	err = each(rows, func() error {
		var stream string
		var position uint64
		if err := rows.Scan(&stream, &position); err != nil {
			return err
		}
		cursor[stream] = position
		return nil
	})
	return cursor, err
}

// Tail returns exchanges that were stored after a cursor, oldest first, and the cursor after them. Since, Until and Limit
// of the filter hold too. It does not wait: poll it.
func (r *Reader) Tail(ctx context.Context, after Cursor, f Filter) ([]Exchange, Cursor, error) {
	w, err := f.where()
	if err != nil {
		return nil, after, err
	}
	limit, err := f.limit()
	if err != nil {
		return nil, after, err
	}
	if len(after) > 0 {
		names := slices.Sorted(maps.Keys(after))
		either := []string{"stream NOT IN ?"}
		args := []any{names}
		for _, stream := range names {
			either = append(either, "(stream = ? AND position > ?)")
			args = append(args, stream, after[stream])
		}
		w.add("("+strings.Join(either, " OR ")+")", args...)
	}
	found, err := r.exchanges(ctx, "SELECT "+exchangeColumns+" FROM exchanges WHERE "+w.String()+" ORDER BY stream, position LIMIT ?",
		append(w.args, limit)...)
	if err != nil {
		return nil, after, err
	}
	next := maps.Clone(after)
	if next == nil {
		next = Cursor{}
	}
	for i := range found {
		next[found[i].Stream] = max(next[found[i].Stream], found[i].Position)
	}
	slices.SortStableFunc(found, func(a, b Exchange) int { return a.Ended.Compare(b.Ended) })
	return found, next, nil
}

// exchanges runs a select of exchangeColumns and adds what the open items tell.
func (r *Reader) exchanges(ctx context.Context, statement string, args ...any) ([]Exchange, error) {
	rows, err := r.query(ctx, statement, args...)
	if err != nil {
		return nil, err
	}
	var found []Exchange
	err = each(rows, func() error {
		var e Exchange
		var id driveruuid.UUID
		var outcome, status string
		if err := rows.Scan(&id, &e.Started, &e.Ended, &e.Tenant, &e.Gateway, &e.Server, &e.Method, &e.Target, &outcome, &status,
			&e.AbortedAt, &e.Cause, &e.IsError, &e.ErrorCode, &e.PrincipalType, &e.Principal, &e.Session, &e.Interceptors, &e.Bytes,
			&e.TotalUS, &e.ChainUS, &e.BackendUS, &e.Stream, &e.Position); err != nil {
			return err
		}
		e.ID, e.Outcome, e.Status = uuid.UUID(id), schemas.Outcome(outcome), schemas.Status(status)
		found = append(found, e)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return found, r.name(ctx, found)
}

// name fills in the clear names of a result.
func (r *Reader) name(ctx context.Context, found []Exchange) error {
	if len(found) == 0 {
		return nil
	}
	index := make(map[uuid.UUID][]int, len(found))
	ids := make([]driveruuid.UUID, 0, len(found))
	first, last := found[0].Started, found[0].Ended
	for i := range found {
		e := &found[i]
		if index[e.ID] == nil {
			ids = append(ids, driveruuid.UUID(e.ID))
		}
		index[e.ID] = append(index[e.ID], i)
		if e.Started.Before(first) && e.Started.Year() > 1970 {
			first = e.Started
		}
		if e.Ended.After(last) {
			last = e.Ended
		}
	}
	if first.Year() <= 1970 { // an outcome that does not know when its request came
		first = last.Add(-longest)
	}
	rows, err := r.query(ctx, "SELECT exchange_id, max(principal), max(target), max(client_name), max(reason) FROM open_items "+
		"WHERE time >= fromUnixTimestamp64Micro(?, 'UTC') AND time <= fromUnixTimestamp64Micro(?, 'UTC') AND exchange_id IN ? "+
		"AND role IN ('context', 'detail') GROUP BY exchange_id",
		first.Add(-time.Minute).UnixMicro(), last.Add(time.Minute).UnixMicro(), ids)
	if err != nil {
		return err
	}
	return each(rows, func() error {
		var id driveruuid.UUID
		var principal, target, client, reason string
		if err := rows.Scan(&id, &principal, &target, &client, &reason); err != nil {
			return err
		}
		for _, i := range index[uuid.UUID(id)] {
			e := &found[i]
			e.Client, e.Reason = client, reason
			if principal != "" {
				e.Principal = principal
			}
			if target != "" {
				e.Target = target
			}
		}
		return nil
	})
}
