package chain

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/chaintrail/chaintrail/chain/interceptor"
	"github.com/chaintrail/chaintrail/chain/wire"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

// Directory offers the interceptors that a [Set] has in force to others, as one server of SEP-2624: their lists are one
// list, and each invocation goes to the server that has the interceptor. Concurrent use is allowed.
type Directory struct{ set *Set }

// Directory returns the offer. It follows the plan in force.
func (s *Set) Directory() *Directory { return &Directory{s} }

// Events lists the events of all hooks, each once, sorted.
func (d *Directory) Events() []string {
	var events []string
	for _, m := range d.members() {
		for _, hook := range m.entry.Hooks {
			events = append(events, hook.Events...)
		}
	}
	slices.Sort(events)
	return slices.Compact(events)
}

func (d *Directory) members() []*Interceptor {
	if plan := d.set.Current(); plan != nil {
		return plan.members
	}
	return nil
}

// List answers interceptors/list with one page: what each server lists now, as far as it is in force. params MUST be
// grammatical or nil. A server that cannot be asked is an error, since a list without it would look whole.
func (d *Directory) List(ctx context.Context, params jsonx.Value) (jsonx.Value, error) {
	event, _ := jsonx.Lookup(params, "event")
	out := []byte(`{"interceptors":[`)
	first := true
	members := d.members()
	for i, m := range members {
		if slices.ContainsFunc(members[:i], func(o *Interceptor) bool { return o.entry.Host == m.entry.Host }) {
			continue // this server was asked
		}
		err := eachPage(ctx, m.caller, event, func(page jsonx.Value) (cursor string, err error) {
			list, _ := jsonx.Lookup(page, "interceptors")
			for descriptor := range jsonx.Elements(list) {
				if descriptor = inForce(members, m.entry.Host, descriptor); descriptor == nil {
					continue
				}
				if !first {
					out = append(out, ',')
				}
				out, first = append(out, descriptor...), false
			}
			cursor, _ = wire.MemberString(page, "nextCursor")
			return cursor, nil
		})
		if err != nil {
			return nil, failed(fmt.Errorf("list of server %q: %w", m.entry.Host, err))
		}
	}
	return append(out, "]}"...), nil
}

// inForce gives a listed descriptor the name that it has in the plan; nil when it is not in force.
func inForce(members []*Interceptor, host string, descriptor jsonx.Value) jsonx.Value {
	name, _ := wire.MemberString(descriptor, "name")
	for _, m := range members {
		switch {
		case m.entry.Host != host || m.entry.OwnName() != name:
		case m.entry.Name == name:
			return descriptor
		default:
			return wire.WithMember(descriptor, "name", appendString(nil, m.entry.Name))
		}
	}
	return nil
}

// Invoke answers interceptor/invoke: the server's own result or error, byte for byte. params MUST be grammatical.
func (d *Directory) Invoke(ctx context.Context, params jsonx.Value) (jsonx.Value, error) {
	name, _ := wire.MemberString(params, "name")
	for _, m := range d.members() {
		if m.entry.Name != name {
			continue
		}
		if own := m.entry.OwnName(); own != name {
			params = wire.WithMember(params, "name", appendString(nil, own))
		}
		result, err := m.caller.Call(ctx, interceptor.MethodInvoke, params)
		if err != nil {
			return nil, failed(fmt.Errorf("server %q: %w", m.entry.Host, err))
		}
		return result, nil
	}
	return nil, &wire.RPCError{
		Code: wire.CodeInvalidParams, Message: "Unknown interceptor", Data: append(appendString([]byte(`{"interceptor":`), name), '}'),
	}
}

// failed makes an error that may be told: that of the server itself, else one that hides where it is.
func failed(err error) error {
	if rpc, ok := errors.AsType[*wire.RPCError](err); ok {
		return rpc
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return &wire.RPCError{Code: wire.CodeInternal, Message: "The interceptor server does not answer"}
}
