package gateway

import (
	"uuid"

	"github.com/chaintrail/chaintrail/chain"
	"github.com/chaintrail/chaintrail/chain/wire"
	"github.com/chaintrail/chaintrail/schemas"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
	"github.com/chaintrail/chaintrail/schemas/seal"
)

// What the gateway itself changes in results is recorded like the work of a mutator of this server, by these names.
const (
	amendHost       = "gateway"
	amendServerInfo = "chaintrail/server-info"
	amendSchemas    = "chaintrail/repair-schemas"
)

// amend makes the changes to a result that the rules ask for, after the interceptors.
func (x *exchange) amend(rec *schemas.Record, result jsonx.Value, res *chain.Result) {
	if x.reverse {
		return
	}
	before := current(res, result)
	if x.msg.Method == methodToolsList && (res.Modified || x.rules.RepairSchemas.applies(x.version)) {
		if after, changed := repairSchemas(before); changed {
			noteAmend(rec, res, amendSchemas, after)
			before = after
		}
	}
	top := x.msg.Method == methodInitialize || x.msg.Method == methodDiscover
	if after, changed := x.rules.ServerInfo.override(before, top); changed {
		noteAmend(rec, res, amendServerInfo, after)
		before = after
	}
	if top && x.rules.Expose != nil {
		if after, changed := extend(before, x.rules.Expose.Events()); changed {
			noteAmend(rec, res, amendExtension, after)
		}
	}
}

// noteAmend puts a changed result in place and beside the event.
func noteAmend(rec *schemas.Record, res *chain.Result, name string, after jsonx.Value) {
	if rec.Event.ID == uuid.Nil() {
		rec.Event.ID = uuid.NewV7()
	}
	res.Modified, res.Payload = true, after
	changed := true
	rec.Event.Invocations = append(rec.Event.Invocations, schemas.Invocation{
		ID: seal.InvocationID(rec.Event.ID, amendHost, name, ""), Interceptor: name, Host: amendHost,
		Type: schemas.TypeMutation, Mode: schemas.ModeActive, Order: len(rec.Event.Invocations),
		State: schemas.StateFinished, Modified: &changed,
	})
}

// override sets what a server says of itself, wherever the result says it; top tells that it may be a member of its own.
func (s ServerInfo) override(result jsonx.Value, top bool) (jsonx.Value, bool) {
	if s == (ServerInfo{}) || result.Kind() != '{' {
		return result, false
	}
	out := result
	if info, ok := jsonx.Lookup(out, "serverInfo"); ok && top {
		out = wire.WithMember(out, "serverInfo", s.over(info))
	}
	if meta, ok := jsonx.Lookup(out, "_meta"); ok {
		if info, ok := jsonx.Lookup(meta, wire.MetaServerInfo); ok {
			out = wire.WithMember(out, "_meta", wire.WithMember(meta, wire.MetaServerInfo, s.over(info)))
		}
	}
	return out, string(out) != string(result)
}

func (s ServerInfo) over(info jsonx.Value) jsonx.Value {
	if s.Name != "" {
		info = wire.WithMember(info, "name", appendQuoted(nil, s.Name))
	}
	if s.Version != "" {
		info = wire.WithMember(info, "version", appendQuoted(nil, s.Version))
	}
	return info
}

func (r RepairSchemas) applies(version string) bool {
	return r == RepairAlways || (r == "" || r == RepairAuto) && stateless(version)
}

// repairSchemas gives every tool whose inputSchema is missing or describes no object one that takes any object: clients
// refuse the whole list for a single bad one.
func repairSchemas(result jsonx.Value) (jsonx.Value, bool) {
	tools, _ := jsonx.Lookup(result, "tools")
	if tools.Kind() != '[' {
		return result, false
	}
	changed := false
	list := []byte{'['}
	for tool := range jsonx.Elements(tools) {
		if len(list) > 1 {
			list = append(list, ',')
		}
		if tool.Kind() == '{' && !takesObject(tool) {
			tool, changed = wire.WithMember(tool, "inputSchema", jsonx.Value(`{"type":"object"}`)), true
		}
		list = append(list, tool...)
	}
	if !changed {
		return result, false
	}
	return wire.WithMember(result, "tools", append(list, ']')), true
}

func takesObject(tool jsonx.Value) bool {
	schema, _ := jsonx.Lookup(tool, "inputSchema")
	kind, _ := wire.MemberString(schema, "type")
	return schema.Kind() == '{' && kind == "object"
}
