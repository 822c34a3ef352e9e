package query

import (
	"context"
	"time"
	"uuid"

	driveruuid "github.com/google/uuid"

	"github.com/chaintrail/chaintrail/schemas"
)

// top bounds the lists of a summary.
const top = 100

// Summary is what happened since an instant.
type Summary struct {
	Since        time.Time                  `json:"since"`
	Exchanges    uint64                     `json:"exchanges"`
	Outcomes     map[schemas.Outcome]uint64 `json:"outcomes"`
	Unrecorded   uint64                     `json:"unrecorded"`             // exchanges that passed without a record, as gap events declare
	Tools        []ToolSummary              `json:"tools,omitempty"`        // most called first, at most 100
	Interceptors []InterceptorSummary       `json:"interceptors,omitempty"` // most invoked first, at most 100
	Streams      []StreamSummary            `json:"streams,omitempty"`
}

// ToolSummary is about one target on one server.
type ToolSummary struct {
	Server string `json:"server"`
	Method string `json:"method"`
	Target string `json:"target,omitzero"`
	Calls  uint64 `json:"calls"`
	Denied uint64 `json:"denied"`
	Errors uint64 `json:"errors"` // outcome error, or a tool result with isError
	P50US  int64  `json:"p50_us"` // from arrival to answer
	P95US  int64  `json:"p95_us"`
}

// InterceptorSummary is about one interceptor, version and mode.
type InterceptorSummary struct {
	Name    string                  `json:"name"`
	Version string                  `json:"version,omitzero"`
	Type    schemas.InterceptorType `json:"type"`
	Mode    schemas.Mode            `json:"mode"`
	Results uint64                  `json:"results"`
	Invalid uint64                  `json:"invalid"` // validations with valid false
	Changed uint64                  `json:"changed"` // mutations that modified
	Failed  uint64                  `json:"failed"`  // failed, timeout or malformed
	Skipped uint64                  `json:"skipped"`
	P50US   int64                   `json:"p50_us"` // of those that ran
	P95US   int64                   `json:"p95_us"`
}

// StreamSummary is how far the store is with a stream; its end is known to the bus only.
type StreamSummary struct {
	Stream    string    `json:"stream"`
	Position  uint64    `json:"position"`  // highest stored
	Events    uint64    `json:"events"`    // since the instant
	Published time.Time `json:"published"` // of the newest
	DelayUS   int64     `json:"delay_us"`  // p95 from event to publication
}

// Stats sums up what was stored about exchanges that ended since an instant.
func (r *Reader) Stats(ctx context.Context, since time.Time) (*Summary, error) {
	s := &Summary{Since: since.UTC(), Outcomes: map[schemas.Outcome]uint64{}}
	for _, part := range []func(context.Context, *Summary, int64) error{r.outcomes, r.gaps, r.tools, r.interceptors, r.streams} {
		if err := part(ctx, s, since.UnixMicro()); err != nil {
			return nil, err
		}
	}
	return s, nil
}

const sinceTime = "time >= fromUnixTimestamp64Micro(?, 'UTC')"

func (r *Reader) outcomes(ctx context.Context, s *Summary, since int64) error {
	rows, err := r.query(ctx, "SELECT outcome, count() FROM exchanges WHERE "+sinceTime+" GROUP BY outcome", since)
	if err != nil {
		return err
	}
	return each(rows, func() error {
		var outcome string
		var n uint64
		if err := rows.Scan(&outcome, &n); err != nil {
			return err
		}
		s.Outcomes[schemas.Outcome(outcome)] = n
		s.Exchanges += n
		return nil
	})
}

// gaps sums up what was declared as not recorded, from the sealed bytes.
func (r *Reader) gaps(ctx context.Context, s *Summary, since int64) error {
	rows, err := r.query(ctx, "SELECT sum(JSONExtractUInt(raw, 'gap', 'count')) FROM events WHERE kind = 'gap' AND "+sinceTime, since)
	if err != nil {
		return err
	}
	return each(rows, func() error { return rows.Scan(&s.Unrecorded) })
}

func (r *Reader) tools(ctx context.Context, s *Summary, since int64) error {
	rows, err := r.query(ctx, "SELECT server, event, max(target), count() AS calls, countIf(outcome = 'denied'), countIf(outcome = 'error' OR is_error), "+
		"toInt64(quantile(0.5)(total_us)), toInt64(quantile(0.95)(total_us)), argMax(exchange_id, time) FROM exchanges WHERE "+sinceTime+
		" GROUP BY server, event, if(target_ref = '', target, target_ref) ORDER BY calls DESC, server, event, max(target) LIMIT ?", since, top)
	if err != nil {
		return err
	}
	var newest []Exchange // of each row, to name targets that no list has shown
	err = each(rows, func() error {
		var t ToolSummary
		var id driveruuid.UUID
		if err := rows.Scan(&t.Server, &t.Method, &t.Target, &t.Calls, &t.Denied, &t.Errors, &t.P50US, &t.P95US, &id); err != nil {
			return err
		}
		s.Tools = append(s.Tools, t)
		newest = append(newest, Exchange{ID: uuid.UUID(id), Started: time.UnixMicro(since), Ended: time.Now(), Target: t.Target})
		return nil
	})
	if err != nil {
		return err
	}
	if err := r.name(ctx, newest); err != nil {
		return err
	}
	for i := range newest {
		s.Tools[i].Target = newest[i].Target
	}
	return nil
}

func (r *Reader) interceptors(ctx context.Context, s *Summary, since int64) error {
	rows, err := r.query(ctx, "SELECT interceptor, version, type, mode, count() AS results, countIf(valid = false), countIf(modified = true), "+
		"countIf(state IN ('failed', 'timeout', 'malformed')), countIf(state = 'skipped'), "+
		"toInt64(ifNotFinite(quantileIf(0.5)(duration_us, state != 'skipped'), 0)), "+
		"toInt64(ifNotFinite(quantileIf(0.95)(duration_us, state != 'skipped'), 0)) FROM invocations WHERE "+sinceTime+
		" GROUP BY interceptor, version, type, mode ORDER BY results DESC, interceptor, version LIMIT ?", since, top)
	if err != nil {
		return err
	}
	return each(rows, func() error {
		var i InterceptorSummary
		var typ, mode string
		if err := rows.Scan(&i.Name, &i.Version, &typ, &mode, &i.Results, &i.Invalid, &i.Changed, &i.Failed, &i.Skipped,
			&i.P50US, &i.P95US); err != nil {
			return err
		}
		i.Type, i.Mode = schemas.InterceptorType(typ), schemas.Mode(mode)
		s.Interceptors = append(s.Interceptors, i)
		return nil
	})
}

func (r *Reader) streams(ctx context.Context, s *Summary, since int64) error {
	rows, err := r.query(ctx, "SELECT stream, max(position), count(), max(published), "+
		"toInt64(quantile(0.95)(greatest(0, toUnixTimestamp64Micro(published) - toUnixTimestamp64Micro(time)))) FROM events WHERE "+sinceTime+
		" GROUP BY stream ORDER BY stream LIMIT ?", since, top)
	if err != nil {
		return err
	}
	return each(rows, func() error {
		var one StreamSummary
		if err := rows.Scan(&one.Stream, &one.Position, &one.Events, &one.Published, &one.DelayUS); err != nil {
			return err
		}
		s.Streams = append(s.Streams, one)
		return nil
	})
}
