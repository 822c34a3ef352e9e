package schemas

import (
	"strconv"
	"strings"
	"uuid"

	"github.com/chaintrail/chaintrail/schemas/jsonx"
	"github.com/chaintrail/chaintrail/schemas/seal"
)

// OpenRef is an event's sealed word about one open item beside it.
type OpenRef struct {
	Role       Role      `json:"role"`
	Index      int       `json:"index,omitzero"`
	Bytes      int       `json:"bytes"`      // size of the true value
	Commitment seal.Hash `json:"commitment"` // seal.Commit(seal.DomainTrue, salt, true value)
	Keep       Keep      `json:"keep"`
	KeptBytes  int       `json:"kept_bytes,omitzero"` // size of the kept form, where it differs from the true value
	Kept       seal.Hash `json:"kept,omitzero"`       // seal.Commit(seal.DomainKept, salt, kept form), where it differs
	Flags      []string  `json:"flags,omitempty"`     // "capped", "lone_surrogate", "invalid_utf8", "duplicate_names", "not_json", "redacted"
}

// Name is the item's name within its event, see [ItemName].
func (r OpenRef) Name() string { return ItemName(r.Role, r.Index) }

// ItemName is the name of an open item within its event: the role, with ".N" for a numbered one.
func ItemName(role Role, index int) string {
	if index == 0 {
		return string(role)
	}
	return string(role) + "." + strconv.Itoa(index)
}

// ParseItemName is the inverse of [ItemName].
func ParseItemName(name string) (Role, int) {
	if i := strings.LastIndexByte(name, '.'); i > 0 {
		if n, err := strconv.Atoi(name[i+1:]); err == nil && n > 0 {
			return Role(name[:i]), n
		}
	}
	return Role(name), 0
}

// OpenItem is a value from outside, beside an event. Before the policy stage Data is the true
// value; after it Data is the kept form, and Salt and Ref are set.
type OpenItem struct {
	OpenHeader
	Ref  OpenRef `json:"-"` // goes into Event.Open; not set for snapshots
	Data []byte  `json:"-"`
}

// OpenHeader identifies an item outside its event: in the journal, in the open stream, in ClickHouse.
type OpenHeader struct {
	Event    uuid.UUID `json:"event"`
	Exchange uuid.UUID `json:"exchange,omitzero"`
	Tenant   string    `json:"tenant"`
	Writer   uuid.UUID `json:"writer"`
	Seq      uint64    `json:"seq"`  // of the event
	Time     Time      `json:"time"` // of the event
	Kind     Kind      `json:"kind"` // of the event
	Role     Role      `json:"role"`
	Index    int       `json:"index,omitzero"`
	Of       string    `json:"of,omitzero"` // RoleSnapshot: name of the item whose true value it holds
	Salt     seal.Salt `json:"salt"`
	Keep     Keep      `json:"keep"`
	Part     int       `json:"part,omitzero"`  // from 0
	Parts    int       `json:"parts,omitzero"` // 0 and 1 mean whole
}

// Name is the item's name within its event, see [ItemName].
func (h OpenHeader) Name() string { return ItemName(h.Role, h.Index) }

// Context is the clear form of who called what from where; the value of a [RoleContext] item.
type Context struct {
	SessionID     string            `json:"session_id,omitzero"`
	RequestID     jsonx.Value       `json:"request_id,omitzero"` // raw JSON-RPC id
	Method        string            `json:"method,omitzero"`
	Target        string            `json:"target,omitzero"` // tool or prompt name, resource URI: as asked for
	PrincipalType string            `json:"principal_type,omitzero"`
	Principal     string            `json:"principal,omitzero"`
	Claims        map[string]string `json:"claims,omitempty"` // by allow-list
	ClientName    string            `json:"client_name,omitzero"`
	ClientVersion string            `json:"client_version,omitzero"`
	ClientAddress string            `json:"client_address,omitzero"`
	UserAgent     string            `json:"user_agent,omitzero"`
	Protocol      string            `json:"protocol_version,omitzero"` // as sent
	Asserted      jsonx.Value       `json:"asserted,omitzero"`         // client assertions from _meta, never evidence
}

// Detail is the clear form of why; the value of a [RoleDetail] item.
type Detail struct {
	Reason      string             `json:"reason,omitzero"` // what the caller was told
	Error       string             `json:"error,omitzero"`  // error text of the other side or of the gateway
	Invocations []InvocationDetail `json:"invocations,omitempty"`
}

// InvocationDetail holds what an interceptor said.
type InvocationDetail struct {
	Order       int         `json:"order"` // joins with Invocation.Order
	Interceptor string      `json:"interceptor"`
	Error       string      `json:"error,omitzero"`
	Messages    jsonx.Value `json:"messages,omitzero"`
	Suggestions jsonx.Value `json:"suggestions,omitzero"`
	Info        jsonx.Value `json:"info,omitzero"`
	Metrics     jsonx.Value `json:"metrics,omitzero"`
	Payload     jsonx.Value `json:"payload,omitzero"` // audit-mode mutator: what it would have made
}

// HostRef tells deferred work how to reach an interceptor server and with what configuration.
type HostRef struct {
	Host    string                 `json:"host"`
	URL     string                 `json:"url,omitzero"`
	Command []string               `json:"command,omitempty"`
	Env     map[string]string      `json:"env,omitempty"`
	Configs map[string]jsonx.Value `json:"configs,omitempty"` // by interceptor name
}

// Record is what travels from the request path to the journal: an event and the open items beside it.
type Record struct {
	Event Event
	Items []OpenItem
	Hash  seal.Hash // set by the journal: hash of the sealed bytes
	Shed  bool      // set by the journal on a request event under on_full "shed"; copy it to the outcome's record
}

// Add puts a value from outside beside the event.
func (r *Record) Add(role Role, index int, data []byte) {
	r.Items = append(r.Items, OpenItem{Role: role, Index: index, Data: data})
}
