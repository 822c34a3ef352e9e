package clickhouse

import (
	"github.com/chaintrail/chaintrail/schemas"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
	"github.com/chaintrail/chaintrail/sinks"
)

// openBlocks are the blocks that open items become.
type openBlocks struct {
	stream string
	items  contextRows
	bodies itemRows
}

func newOpenBlocks(stream string, entries []sinks.Entry) *openBlocks {
	b := &openBlocks{stream: stream}
	for i := range entries {
		if isBody(entries[i].Item.Role) {
			b.bodies.hint++
		} else {
			b.items.hint++
		}
	}
	b.items.init("open_items")
	b.items.initTyped()
	b.items.initData()
	b.bodies.init("bodies")
	b.bodies.initData()
	return b
}

func (b *openBlocks) all() []*block { return []*block{&b.bodies.block, &b.items.block} }

func (b *openBlocks) add(e *sinks.Entry) {
	h := e.Item
	o := &origin{stream: b.stream, entry: e, tenant: h.Tenant, time: h.Time, event: h.Event, exchange: h.Exchange}
	if isBody(h.Role) {
		b.bodies.add(o)
		return
	}
	b.items.add(o)
	b.items.addTyped(e)
}

func isBody(role schemas.Role) bool {
	return role == schemas.RoleBefore || role == schemas.RoleAfter || role == schemas.RoleStep
}

// itemRows is the table of bodies, and the columns that open_items shares with it.
type itemRows struct {
	block
	place
	kind  *names
	role  *names
	idx   counts
	part  counts
	parts counts
	keep  *names
	salt  hashes
	data  blobs
}

func (r *itemRows) init(table string) {
	b := &r.block
	b.table = table
	r.place = newPlace(b)
	r.kind = nameColumn(b, "kind")
	r.role = nameColumn(b, "role")
	r.idx = countColumn(b, "idx")
	r.part = countColumn(b, "part")
	r.parts = countColumn(b, "parts")
	r.keep = nameColumn(b, "keep")
	r.salt = hashColumn(b, "salt")
}

func (r *itemRows) initData() { r.data = blobColumn(&r.block, "data") }

func (r *itemRows) add(o *origin) {
	h := o.entry.Item
	r.at(o)
	r.kind.add(string(h.Kind))
	r.role.add(string(h.Role))
	r.idx.put(h.Index)
	r.part.put(h.Part)
	r.parts.put(max(h.Parts, 1))
	r.keep.add(string(h.Keep))
	r.salt.add(h.Salt[:])
	r.data.add(o.entry.Data)
}

// contextRows is the table of contexts and details, with the members of a context as columns.
type contextRows struct {
	itemRows
	sessionID       texts
	requestID       texts
	method          *names
	target          texts
	principalType   *names
	principal       texts
	clientName      *names
	clientVersion   *names
	clientAddress   texts
	userAgent       texts
	protocolVersion *names
	reason          texts
}

func (r *contextRows) initTyped() {
	b := &r.block
	r.sessionID = textColumn(b, "session_id")
	r.requestID = textColumn(b, "request_id")
	r.method = nameColumn(b, "method")
	r.target = textColumn(b, "target")
	r.principalType = nameColumn(b, "principal_type")
	r.principal = textColumn(b, "principal")
	r.clientName = nameColumn(b, "client_name")
	r.clientVersion = nameColumn(b, "client_version")
	r.clientAddress = textColumn(b, "client_address")
	r.userAgent = textColumn(b, "user_agent")
	r.protocolVersion = nameColumn(b, "protocol_version")
	r.reason = textColumn(b, "reason")
}

// addTyped fills the typed columns. They stay empty when the kept form cannot be read, or is only a part: the data is
// there all the same.
func (r *contextRows) addTyped(e *sinks.Entry) {
	c := &schemas.Context{}
	var reason string
	switch {
	case e.Item.Parts > 1 || len(e.Data) == 0:
	case e.Item.Role == schemas.RoleContext:
		if found, err := schemas.DecodeContext(e.Data); err == nil {
			c = found
		}
	case e.Item.Role == schemas.RoleDetail:
		var d schemas.Detail
		if jsonx.Unmarshal(e.Data, &d) == nil {
			reason = d.Reason
		}
	}
	r.sessionID.add(c.SessionID)
	r.requestID.add(string(c.RequestID))
	r.method.add(c.Method)
	r.target.add(c.Target)
	r.principalType.add(c.PrincipalType)
	r.principal.add(c.Principal)
	r.clientName.add(c.ClientName)
	r.clientVersion.add(c.ClientVersion)
	r.clientAddress.add(c.ClientAddress)
	r.userAgent.add(c.UserAgent)
	r.protocolVersion.add(c.Protocol)
	r.reason.add(reason)
}
