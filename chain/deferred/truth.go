package deferred

import (
	"errors"
	"fmt"

	"github.com/chaintrail/chaintrail/schemas"
	"github.com/chaintrail/chaintrail/schemas/seal"
)

// errGone is the reason of a skipped invocation: what it needs was erased, or its snapshot expired.
var errGone = errors.New("the value is gone")

// truths finds the true values of an event's items.
type truths struct {
	event *schemas.Event
	items []schemas.EntryItem
	open  Opener
}

// of returns the true value of the item with this name: what was kept, where that is the true value,
// else what its snapshot holds. Both are checked against the event's commitment, so that deferred
// work never judges anything but what the event speaks of.
func (t *truths) of(name string) ([]byte, error) {
	var ref *schemas.OpenRef
	for i := range t.event.Open {
		if t.event.Open[i].Name() == name {
			ref = &t.event.Open[i]
		}
	}
	if ref == nil {
		return nil, errGone
	}
	salt := seal.Salt{}
	var snapshot *schemas.EntryItem
	for i := range t.items {
		switch item := &t.items[i]; {
		case item.Header.Role == schemas.RoleSnapshot:
			if item.Header.Of == name {
				snapshot = item
			}
		case item.Header.Name() == name:
			salt = item.Header.Salt
			if ref.Kept.IsZero() && (ref.Keep == schemas.KeepFull || ref.Keep == schemas.KeepRedacted) {
				return checked(name, ref, salt, item.Data)
			}
		}
	}
	if snapshot == nil {
		return nil, errGone
	}
	if t.open == nil {
		return nil, fmt.Errorf("%w: %s travels as a snapshot, and there is no key to open it: give this process the snapshot key", ErrPayload, name)
	}
	value, err := t.open(*snapshot)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrPayload, err)
	}
	return checked(name, ref, salt, value)
}

// checked compares a value with its commitment; under policy none the salt is gone, and only the size
// can be compared.
func checked(name string, ref *schemas.OpenRef, salt seal.Salt, value []byte) ([]byte, error) {
	if len(value) != ref.Bytes || salt != (seal.Salt{}) && seal.Commit(seal.DomainTrue, salt, value) != ref.Commitment {
		return nil, fmt.Errorf("%w: %s is not what its event committed to", ErrPayload, name)
	}
	return value, nil
}
