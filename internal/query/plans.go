package query

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/chaintrail/chaintrail/schemas"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
	"github.com/chaintrail/chaintrail/schemas/seal"
)

// ErrNoPlan is returned when no plan with the digest is stored.
var ErrNoPlan = errors.New("no plan with this digest is stored")

// maxPlans bounds the plans that are returned.
const maxPlans = 1000

// PlanInForce is the last plan of a server.
type PlanInForce struct {
	schemas.Plan
	Tenant string    `json:"tenant"`
	Since  time.Time `json:"since"`
}

// Plans returns the last plan of each tenant and server.
func (r *Reader) Plans(ctx context.Context) ([]PlanInForce, error) {
	rows, err := r.query(ctx, "SELECT tenant, argMax(plan, (time, event_id)), max(time) FROM plans GROUP BY tenant, server "+
		"ORDER BY tenant, server LIMIT ?", maxPlans)
	if err != nil {
		return nil, err
	}
	var plans []PlanInForce
	err = each(rows, func() error {
		var p PlanInForce
		var text string
		if err := rows.Scan(&p.Tenant, &text, &p.Since); err != nil {
			return err
		}
		plan, err := planIn(text)
		if err == nil {
			p.Plan = *plan
			plans = append(plans, p)
		}
		return err
	})
	return plans, err
}

// PlanOf returns the plan with a digest ([ErrNoPlan]).
func (r *Reader) PlanOf(ctx context.Context, digest seal.Hash) (*schemas.Plan, error) {
	rows, err := r.query(ctx, "SELECT plan FROM plans WHERE digest = ? LIMIT 1", string(digest[:]))
	if err != nil {
		return nil, err
	}
	var plan *schemas.Plan
	err = each(rows, func() error {
		var text string
		err := rows.Scan(&text)
		if err == nil {
			plan, err = planIn(text)
		}
		return err
	})
	if err == nil && plan == nil {
		err = fmt.Errorf("%w: %s", ErrNoPlan, digest)
	}
	return plan, err
}

// planIn takes the plan out of its event.
func planIn(text string) (*schemas.Plan, error) {
	var e schemas.Event
	if err := jsonx.Unmarshal([]byte(text), &e); err != nil {
		return nil, fmt.Errorf("event of a plan: %w", err)
	}
	if e.Plan == nil {
		return nil, errors.New("event of a plan has none")
	}
	return e.Plan, nil
}

// Health is how the invocations of an interceptor went.
type Health struct {
	Runs     uint64    `json:"runs"`
	Failures uint64    `json:"failures"` // failed, timed out or malformed
	Last     time.Time `json:"last"`
}

// Healths tells it by interceptor, from a time on.
func (r *Reader) Healths(ctx context.Context, from time.Time) (map[string]Health, error) {
	rows, err := r.query(ctx, "SELECT interceptor, count(), countIf(state != 'finished'), max(time) FROM invocations "+
		"WHERE time >= ? AND state IN ('finished', 'failed', 'timeout', 'malformed') GROUP BY interceptor", from)
	if err != nil {
		return nil, err
	}
	all := map[string]Health{}
	err = each(rows, func() error {
		var name string
		var h Health
		if err := rows.Scan(&name, &h.Runs, &h.Failures, &h.Last); err != nil {
			return err
		}
		all[name] = h
		return nil
	})
	return all, err
}
