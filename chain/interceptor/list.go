package interceptor

import (
	"context"
	"strconv"
	"strings"

	"github.com/chaintrail/chaintrail/chain/wire"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

// List answers interceptors/list: all descriptors, or those that have a hook for the event that params name, in the
// order of New and in pages of Options.PageSize. The filter is one event: a wildcard in it is refused, while wildcards
// of hooks match it. params MUST be grammatical or nil. The error is a *[wire.RPCError].
func (s *Server) List(_ context.Context, params jsonx.Value) (jsonx.Value, error) {
	filter, refusal := optionalString(params, "event")
	if refusal != nil {
		return nil, refusal
	}
	if strings.Contains(filter, "*") {
		return nil, badParams("event is a filter and names one event, without a wildcard; leave it out for all")
	}
	from, refusal := s.cursorOf(params)
	if refusal != nil {
		return nil, refusal
	}
	out := []byte(`{"interceptors":[`)
	next, count := 0, 0
	for i := from; i < len(s.order); i++ {
		e := s.order[i]
		if filter != "" && !e.Descriptor.listed(filter) {
			continue
		}
		if s.opts.PageSize > 0 && count == s.opts.PageSize {
			next = i
			break
		}
		if count++; count > 1 {
			out = append(out, ',')
		}
		out = append(out, e.wire...)
	}
	out = append(out, ']')
	if next > 0 {
		out = appendQuoted(append(out, `,"nextCursor":`...), cursorPrefix+strconv.Itoa(next))
	}
	if version := wire.MetaOf(params).ProtocolVersion; wire.Modern(version) {
		out = append(out, `,"resultType":"complete","ttlMs":0,"cacheScope":"private"`...)
	}
	return append(out, '}'), nil
}

// cursorPrefix marks a cursor as ours. Behind it is where the next page begins in the order of New, so that a cursor
// stays good over connections and restarts.
const cursorPrefix = "i"

func (s *Server) cursorOf(params jsonx.Value) (int, *wire.RPCError) {
	cursor, refusal := optionalString(params, "cursor")
	if refusal != nil || cursor == "" {
		return 0, refusal
	}
	digits, ok := strings.CutPrefix(cursor, cursorPrefix)
	from, err := strconv.Atoi(digits)
	if !ok || err != nil || from < 1 || from >= len(s.order) {
		return 0, badParams("cursor is not one that this server gave")
	}
	return from, nil
}

// optionalString reads a member of params that may be absent or null.
func optionalString(params jsonx.Value, name string) (string, *wire.RPCError) {
	v, ok := jsonx.Lookup(params, name)
	if !ok || string(v) == "null" {
		return "", nil
	}
	s, ok := jsonx.StringOf(v)
	if !ok {
		return "", badParams(name + " is not a string")
	}
	return s, nil
}

// listed tells whether the descriptor has a hook for the event, in any phase.
func (d *Descriptor) listed(event string) bool {
	for _, h := range d.Hooks {
		for _, pattern := range h.Events {
			if Match(pattern, event, h.Phase) {
				return true
			}
		}
	}
	return false
}
