package interceptor

import (
	"fmt"
	"sync/atomic"

	"github.com/chaintrail/chaintrail/schemas"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

// entry is one interceptor as it is served.
type entry struct {
	Interceptor
	as       schemas.InterceptorType // type on the wire
	wire     jsonx.Value             // descriptor on the wire
	settings *settings               // nil: any config goes
	fast     atomic.Bool             // the handler returned soon the last time
}

// newEntry checks an interceptor and fixes its wire form.
func newEntry(i Interceptor, sinksAsValidators bool) (*entry, error) {
	name := i.Descriptor.Name
	i.Descriptor = i.Descriptor.normal()
	if err := i.Descriptor.validate(); err != nil {
		return nil, err
	}
	if i.fault != nil {
		return nil, fmt.Errorf("interceptor %q: %w: %w", name, ErrDescriptor, i.fault)
	}
	if i.run == nil {
		return nil, fmt.Errorf("interceptor %q: %w: no handler", name, ErrDescriptor)
	}
	e := &entry{Interceptor: i, as: i.Descriptor.Type}
	var err error
	if e.settings, err = newSettings(&i.Descriptor); err != nil {
		return nil, fmt.Errorf("interceptor %q: %w: %w", name, ErrDescriptor, err)
	}
	d := i.Descriptor
	if d.Type == schemas.TypeSink && sinksAsValidators {
		e.as = schemas.TypeValidation
		d.Type, d.Mode, d.FailOpen = e.as, schemas.ModeAudit, true
	}
	if e.wire, err = jsonx.Marshal(&d); err != nil {
		return nil, fmt.Errorf("interceptor %q: %w: %w", name, ErrDescriptor, err)
	}
	return e, nil
}
