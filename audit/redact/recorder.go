package redact

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"unicode/utf8"
	"uuid"

	"github.com/chaintrail/chaintrail/internal/detect"
	"github.com/chaintrail/chaintrail/schemas"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
	"github.com/chaintrail/chaintrail/schemas/seal"
)

// Journal is what a [Recorder] hands its records to.
type Journal interface {
	Record(ctx context.Context, rec *schemas.Record) error
}

// ErrSnapshotKey is returned when a policy lets snapshots travel and there is no key for them: give
// one, or set snapshots to deny.
var ErrSnapshotKey = errors.New("snapshot key is missing")

// RecorderOptions are what a [Recorder] may need beside its policy.
type RecorderOptions struct {
	// SnapshotKey encrypts the true values that deferred work needs; required unless the policy denies
	// all snapshots. Whoever has it can read them.
	SnapshotKey seal.Key
	// Tenant is the tenant that the journal writes for; rules match it where the event names none.
	Tenant string
}

// Recorder is the policy stage: it commits to the true values of a record, replaces them by what the
// policy keeps, and passes the record on. It may be used by several goroutines at once.
type Recorder struct {
	next    Journal
	policy  Policy
	body    *detect.Detector
	context *detect.Detector // does not look for e-mail addresses: a principal may be one, and is to be found
	key     seal.Key
	tenant  string
	asked   bool // some rule looks at the tool
}

// NewRecorder returns a recorder before next. policy MUST not be changed afterwards.
func NewRecorder(next Journal, policy Policy, opts *RecorderOptions) (*Recorder, error) {
	if opts == nil {
		opts = &RecorderOptions{}
	}
	if err := policy.Validate(); err != nil {
		return nil, err
	}
	if opts.SnapshotKey == (seal.Key{}) && !policy.deniesSnapshots() {
		return nil, fmt.Errorf("%w: give one, or set snapshots: deny", ErrSnapshotKey)
	}
	body, err := detect.New(policy.Redactor)
	if err != nil {
		return nil, err
	}
	return &Recorder{
		next: next, policy: policy, body: body, context: body.Without(detect.KindEmail, detect.KindPhone),
		key: opts.SnapshotKey, tenant: opts.Tenant, asked: policy.asksForTool(),
	}, nil
}

func (p *Policy) deniesSnapshots() bool {
	return p.Snapshots == snapshotsDeny &&
		!slices.ContainsFunc(p.Rules, func(r Rule) bool { return r.Snapshots == snapshotsAllow })
}

// Redactor returns the detectors of the policy, for what does not travel as a record: logs, dead
// letters.
func (r *Recorder) Redactor() *detect.Detector { return r.body }

// withheld is a value that is not kept as it was.
type withheld struct {
	name     string
	value    []byte
	snapshot bool // the policy lets a snapshot travel
}

// Record implements chain.Recorder. Items whose Ref is set already, as after an attempt that the
// journal refused, are left as they are.
func (r *Recorder) Record(ctx context.Context, rec *schemas.Record) error {
	if rec.Shed && rec.Event.Kind != schemas.KindRequest {
		return r.next.Record(ctx, rec) // the journal has no place for it
	}
	if rec.Event.ID == (uuid.UUID{}) {
		rec.Event.ID = uuid.NewV7()
	}
	f := r.facts(rec)
	later := needsTruth(rec)
	var missing []withheld
	for i := range rec.Items {
		item := &rec.Items[i]
		if item.Role == schemas.RoleSnapshot || item.Ref.Role != "" {
			continue
		}
		v := r.policy.decide(&f, item.Role)
		value := item.Data
		if differs := r.keep(item, v); differs && later {
			missing = append(missing, withheld{item.Name(), value, v.snapshot})
		}
	}
	if len(missing) > 0 {
		skipDenied(&rec.Event, missing)
		if err := r.addSnapshots(rec, missing); err != nil {
			return err
		}
	}
	return r.next.Record(ctx, rec)
}

func (r *Recorder) facts(rec *schemas.Record) facts {
	e := &rec.Event
	f := facts{tenant: e.Tenant}
	if f.tenant == "" {
		f.tenant = r.tenant
	}
	if op := e.Operation; op != nil {
		f.event, f.server, f.tool, f.phase = op.Event, op.Server, op.Target, string(op.Phase)
		if f.tool == "" && r.asked {
			f.tool = askedFor(rec.Items)
		}
	}
	if e.Decision != nil {
		f.outcome = string(e.Decision.Outcome)
	}
	return f
}

// askedFor is the name in the context item, for tools that the server did not list.
func askedFor(items []schemas.OpenItem) string {
	for i := range items {
		if items[i].Role != schemas.RoleContext {
			continue
		}
		var c schemas.Context
		if jsonx.Unmarshal(items[i].Data, &c) == nil {
			return c.Target
		}
	}
	return ""
}

// keep turns item into its kept form, and reports whether that differs from the true value.
func (r *Recorder) keep(item *schemas.OpenItem, v verdict) (differs bool) {
	value := item.Data
	item.Salt = seal.NewSalt()
	item.Keep = v.keep
	ref := schemas.OpenRef{
		Role: item.Role, Index: item.Index, Bytes: len(value), Keep: v.keep,
		Commitment: seal.Commit(seal.DomainTrue, item.Salt, value),
		Flags:      slices.Clip(item.Ref.Flags),
	}
	if !utf8.Valid(value) && !slices.Contains(ref.Flags, "invalid_utf8") {
		ref.Flags = append(ref.Flags, "invalid_utf8")
	}
	switch v.keep {
	case schemas.KeepNone, schemas.KeepDigest:
		item.Data, differs = nil, true
		if v.keep == schemas.KeepNone {
			item.Salt = seal.Salt{} // without it nothing can ever be tested against the commitment
		}
	case schemas.KeepRedacted:
		redactor := r.body
		if item.Role == schemas.RoleContext {
			redactor = r.context
		}
		var found int
		if item.Data, found = redactor.Find(value); found > 0 {
			differs = true
			ref.Flags = append(ref.Flags, "redacted")
		}
	case schemas.KeepFull:
	}
	if v.limit > 0 && len(item.Data) > v.limit {
		item.Data, differs = cut(item.Data, v.limit), true
		ref.Flags = append(ref.Flags, "capped")
	}
	if differs && item.Data != nil {
		ref.KeptBytes = len(item.Data)
		ref.Kept = seal.Commit(seal.DomainKept, item.Salt, item.Data)
	}
	item.Ref = ref
	return differs
}

// cut returns a copy of the first bytes of b, at most limit, that does not end within a rune; a copy
// because the rest must not stay in memory for its sake.
func cut(b []byte, limit int) []byte {
	end := limit
	for end > 0 && end > limit-utf8.UTFMax && !utf8.RuneStart(b[end]) {
		end--
	}
	return slices.Clone(b[:end])
}

// needsTruth reports whether anyone will ask for the true values of rec later: deferred work for its
// payload and context, whoever runs it for the way to the interceptors.
func needsTruth(rec *schemas.Record) bool {
	return rec.Event.Kind == schemas.KindPlan ||
		slices.ContainsFunc(rec.Event.Invocations, func(inv schemas.Invocation) bool { return inv.State == schemas.StateDeferred })
}

// skipDenied turns deferred invocations whose input or context is neither kept nor may travel into
// skipped ones. The slice is copied: it belongs to whoever ran the plan.
func skipDenied(e *schemas.Event, missing []withheld) {
	denied := func(name string) bool {
		return slices.ContainsFunc(missing, func(m withheld) bool { return m.name == name && !m.snapshot })
	}
	all := denied(string(schemas.RoleContext))
	copied := false
	for i := range e.Invocations {
		if inv := e.Invocations[i]; inv.State != schemas.StateDeferred || !all && !denied(inv.Input) {
			continue
		}
		if !copied {
			e.Invocations, copied = slices.Clone(e.Invocations), true
		}
		e.Invocations[i].State, e.Invocations[i].SkipReason = schemas.StateSkipped, schemas.SkipPolicy
	}
}

// addSnapshots encrypts what is still needed of the missing values, each once.
func (r *Recorder) addSnapshots(rec *schemas.Record, missing []withheld) error {
	needed := map[string]bool{}
	for i := range rec.Event.Invocations {
		if inv := &rec.Event.Invocations[i]; inv.State == schemas.StateDeferred {
			needed[inv.Input], needed[string(schemas.RoleContext)] = true, true
		}
	}
	if rec.Event.Kind == schemas.KindPlan {
		needed[string(schemas.RoleHosts)] = true
	}
	index := 0
	for _, m := range missing {
		if !m.snapshot || !needed[m.name] {
			continue
		}
		data, err := sealSnapshot(r.key, rec.Event.ID, m.name, m.value)
		if err != nil {
			return err
		}
		rec.Items = append(rec.Items, schemas.OpenItem{
			Event: rec.Event.ID, Role: schemas.RoleSnapshot, Index: index, Of: m.name, Keep: schemas.KeepFull, Data: data,
		})
		index++
	}
	return nil
}
