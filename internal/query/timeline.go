package query

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
	"uuid"

	driveruuid "github.com/google/uuid"

	"github.com/chaintrail/chaintrail/schemas"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
	"github.com/chaintrail/chaintrail/schemas/seal"
)

// maxEvents bounds a timeline: results of deferred work above it are left out.
const maxEvents = 1000

// Timeline is everything that is stored about one exchange.
type Timeline struct {
	Exchange uuid.UUID `json:"exchange"`
	Tenant   string    `json:"tenant"`
	// Phases are the request and, once there is one, the outcome, in this order.
	Phases []Phase `json:"phases"`
	// Open says that there is no outcome yet.
	Open bool `json:"open,omitzero"`
}

// Phase is a request or outcome event with what lies beside it.
type Phase struct {
	Event       schemas.Event    `json:"event"`
	Hash        seal.Hash        `json:"hash"`
	Leaf        uint64           `json:"leaf"`
	Stream      string           `json:"stream"`
	Position    uint64           `json:"position"`
	Published   time.Time        `json:"published"`
	Context     *schemas.Context `json:"context,omitzero"`
	Detail      *schemas.Detail  `json:"detail,omitzero"`
	Bodies      []Body           `json:"bodies,omitempty"`
	Invocations []Invocation     `json:"invocations,omitempty"` // in the order of the plan
}

// Body is what is kept of a payload.
type Body struct {
	Name      string       `json:"name"`  // see schemas.ItemName
	Bytes     int          `json:"bytes"` // true size
	Keep      schemas.Keep `json:"keep"`
	Flags     []string     `json:"flags,omitempty"`
	Data      string       `json:"data,omitzero"`      // what is kept, when it is UTF-8
	Raw       []byte       `json:"raw,omitempty"`      // what is kept, when it is not
	Truncated bool         `json:"truncated,omitzero"` // it was cut here, not in the store
	Missing   bool         `json:"missing,omitzero"`   // not stored yet, or erased
}

// Invocation is one interceptor's part. For deferred work Invocation is its result once that is stored; until then its
// state is "deferred".
type Invocation struct {
	schemas.Invocation
	Deferred bool                      `json:"deferred,omitzero"` // ran after the fact
	Ended    time.Time                 `json:"ended,omitzero"`    // deferred: when its result was recorded
	Detail   *schemas.InvocationDetail `json:"detail,omitzero"`
}

// Show returns the timeline of the exchange with an id, or with an id that begins so ([ErrNotFound], [ErrAmbiguous]).
// maxBody bounds each body; 0 means [DefaultMaxBody].
func (r *Reader) Show(ctx context.Context, id string, maxBody int) (*Timeline, error) {
	if maxBody <= 0 {
		maxBody = DefaultMaxBody
	}
	exchange, err := r.resolve(ctx, id)
	if err != nil {
		return nil, err
	}
	rows, err := r.query(ctx, "SELECT raw, hash, leaf, stream, position, published FROM events WHERE exchange_id = ? "+
		"ORDER BY position LIMIT ?", driveruuid.UUID(exchange), maxEvents)
	if err != nil {
		return nil, err
	}
	t := &Timeline{Exchange: exchange, Open: true}
	var results []Phase
	err = each(rows, func() error {
		var p Phase
		var raw, hash string
		if err := rows.Scan(&raw, &hash, &p.Leaf, &p.Stream, &p.Position, &p.Published); err != nil {
			return err
		}
		copy(p.Hash[:], hash)
		if err := jsonx.Unmarshal([]byte(raw), &p.Event); err != nil {
			return fmt.Errorf("event at %s %d: %w", p.Stream, p.Position, err)
		}
		switch p.Event.Kind {
		case schemas.KindRequest, schemas.KindOutcome:
			t.Phases = append(t.Phases, p)
		case schemas.KindInvocation:
			results = append(results, p)
		default:
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if len(t.Phases) == 0 {
		return nil, fmt.Errorf("%w: %s", ErrNotFound, id)
	}
	slices.SortStableFunc(t.Phases, func(a, b Phase) int { return cmp.Compare(rank(a), rank(b)) })
	t.Tenant = t.Phases[0].Event.Tenant
	for i := range t.Phases {
		t.Open = t.Open && t.Phases[i].Event.Kind != schemas.KindOutcome
	}
	if err := r.open(ctx, t, results, maxBody); err != nil {
		return nil, err
	}
	return t, nil
}

func rank(p Phase) int {
	if p.Event.Kind == schemas.KindRequest {
		return 0
	}
	return 1
}

// resolve finds the exchange that an id or its beginning means.
func (r *Reader) resolve(ctx context.Context, id string) (uuid.UUID, error) {
	if full, err := uuid.Parse(id); err == nil {
		return full, nil
	}
	if !idPrefix(id) {
		return uuid.UUID{}, fmt.Errorf("%w: an exchange id has 36 characters of 0-9, a-f and -, or fewer for its beginning", ErrFilter)
	}
	rows, err := r.query(ctx, "SELECT DISTINCT exchange_id FROM interceptions WHERE startsWith(toString(exchange_id), ?) LIMIT 6",
		strings.ToLower(id))
	if err != nil {
		return uuid.UUID{}, err
	}
	var found []string
	var last uuid.UUID
	err = each(rows, func() error {
		var one driveruuid.UUID
		if err := rows.Scan(&one); err != nil {
			return err
		}
		last = uuid.UUID(one)
		found = append(found, last.String())
		return nil
	})
	switch {
	case err != nil:
		return uuid.UUID{}, err
	case len(found) == 0:
		return uuid.UUID{}, fmt.Errorf("%w: %s", ErrNotFound, id)
	case len(found) > 1:
		slices.Sort(found)
		return uuid.UUID{}, fmt.Errorf("%w: %s: %s", ErrAmbiguous, id, strings.Join(found, ", "))
	}
	return last, nil
}
