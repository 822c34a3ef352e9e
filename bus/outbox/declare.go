package outbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
	"uuid"

	"github.com/chaintrail/chaintrail/schemas"
)

// declare writes the death of a writer into own's chain, exactly once whoever is killed when:
//
//  1. own keeps its segments from its next seq on (pin);
//  2. the marker in the dead writer's folder names own and that seq: the intent;
//  3. a gap event for what was shed and never declared, a lost outcome for every open exchange and the
//     adopted event are appended as one, all or nothing;
//  4. the marker is marked done; the pin is taken away.
//
// Who comes later and finds an intent that is not done looks for the adopted event in the named
// chain from the named seq on: it is there, then all of step 3 is, and only step 4 is repeated; or it
// is not, then nothing of step 3 is. The named chain is still on disk: while its writer lives because
// of the pin, after its death because an adopter deletes no journal that an intent names.
func (a *Adopter) declare(own *Outbox, j *journal) error {
	dead := j.header.Writer
	m, err := readMarker(j.dir)
	if err != nil || m.Done {
		return err
	}
	if m != (marker{}) {
		if m.Done, err = m.declared(a.cfg.Dir, dead); err != nil {
			return err
		}
		if m.Done {
			return a.finish(j, m)
		}
	}
	recs, err := j.declaration()
	if err != nil {
		return err
	}
	m = marker{Adopter: own.id, From: own.pin(dead)}
	a.pinned[dead] = own
	if err := writeMarker(j.dir, m); err != nil {
		return err
	}
	a.step("intent")
	if err := own.recordAll(recs, false); err != nil {
		if !errors.Is(err, ErrBroken) {
			a.unpin(dead)
		}
		return fmt.Errorf("declare the death of writer %s: %w", dead, err)
	}
	a.step("declared")
	m.Done = true
	return a.finish(j, m)
}

func (a *Adopter) finish(j *journal, m marker) error {
	if err := writeMarker(j.dir, m); err != nil {
		return err
	}
	a.step("done")
	a.unpin(j.header.Writer)
	return nil
}

func (a *Adopter) unpin(dead uuid.UUID) {
	if own := a.pinned[dead]; own != nil {
		own.unpin(dead)
		delete(a.pinned, dead)
	}
}

// unpinDone takes away pins whose declaration another adopter has brought to its end.
func (a *Adopter) unpinDone() {
	for dead := range a.pinned {
		dir := filepath.Join(a.cfg.Dir, dead.String())
		m, err := readMarker(dir)
		_, gone := os.Stat(dir)
		if err == nil && m.Done || errors.Is(gone, os.ErrNotExist) {
			a.unpin(dead)
		}
	}
}

// declaration is what an adopter says of a dead writer: never empty, the adopted event last.
func (j *journal) declaration() ([]*schemas.Record, error) {
	now := schemas.At(time.Now())
	subject := &schemas.WriterRef{Writer: j.header.Writer, Seq: j.last, Hash: j.lastHash}
	var recs []*schemas.Record
	add := func(e schemas.Event) { recs = append(recs, &schemas.Record{Event: e}) }
	gap, err := j.undeclared()
	if err != nil {
		return nil, err
	}
	if gap.Count > 0 {
		add(schemas.Event{
			Kind: schemas.KindGap, Gap: &gap,
			Life: &schemas.WriterLife{State: LifeAdopted, Subject: subject},
		})
	}
	for i := range j.open {
		add(j.open[i].outcome(schemas.OutcomeLost, CauseWriterLost, now))
	}
	add(schemas.Event{
		Kind: schemas.KindWriter,
		Life: &schemas.WriterLife{State: LifeAdopted, Subject: subject, Open: len(j.open)},
	})
	return recs, nil
}

// undeclared is what the dead writer shed and did not come to declare.
func (j *journal) undeclared() (schemas.Gap, error) {
	st, err := readShed(filepath.Join(j.dir, shedName))
	if err != nil || st.total == st.declared {
		return schemas.Gap{}, err
	}
	for e, err := range scanFrom(j.dir, st.declaredSeq+1) {
		if err != nil {
			return schemas.Gap{}, fmt.Errorf("look for gap events: %w", err)
		}
		if e.Seq <= st.declaredSeq || e.Kind != schemas.KindGap {
			continue
		}
		gap, err := ownGap(e.Sealed)
		if err != nil {
			return schemas.Gap{}, fmt.Errorf("gap event %d: %w", e.Seq, err)
		}
		st.declared += gap.Count
		st.from = max(st.from, gap.Until)
	}
	if st.declared >= st.total {
		return schemas.Gap{}, nil
	}
	return st.gap(), nil
}
