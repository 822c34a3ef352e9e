package gateway

import (
	"bytes"
	"crypto/sha256"
	"sync"
	"uuid"

	"github.com/chaintrail/chaintrail/chain"
	"github.com/chaintrail/chaintrail/chain/wire"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
	"github.com/chaintrail/chaintrail/schemas/seal"
)

// From protocol 2026-07-28 on one call can take several rounds: a result asks for input, and the
// client sends the same request again with its answers and the requestState of that result. The state
// leads back to the call; a server that hands out none is found again by what was asked.

const (
	maxCalls     = 4_096    // calls that are remembered, for each backend
	maxCore      = 64 << 10 // bytes of forwarded params that are remembered for the next round
	maxCoreBytes = 16 << 20 // of all of them
)

// roundMembers are the params that change from round to round.
func roundMember(name string) bool {
	return name == "requestState" || name == "inputResponses" || name == "_meta"
}

// coreOf is what of the params is the same in every round.
func coreOf(params jsonx.Value) jsonx.Value {
	out := make([]byte, 0, len(params))
	out = append(out, '{')
	for m := range jsonx.Members(params) {
		if !roundMember(string(m.Name)) {
			out = appendMember(out, m)
		}
	}
	return append(out, '}')
}

func appendMember(object []byte, m jsonx.Member) []byte {
	if len(object) > 1 {
		object = append(object, ',')
	}
	name, _ := jsonx.AppendQuote(object, string(m.Name)) // it was read from JSON
	return append(append(name, ':'), m.Value...)
}

func coreDigest(params jsonx.Value) [sha256.Size]byte {
	core := coreOf(params)
	if canonical, err := jsonx.Canonical(core); err == nil {
		core = canonical
	}
	return sha256.Sum256(core)
}

// withCore gives params the core of others.
func withCore(params, core jsonx.Value) jsonx.Value {
	out := append(make([]byte, 0, len(params)+len(core)), '{')
	for m := range jsonx.Members(core) {
		out = appendMember(out, m)
	}
	for m := range jsonx.Members(params) {
		if roundMember(string(m.Name)) {
			out = appendMember(out, m)
		}
	}
	return append(out, '}')
}

// call is what is remembered of a call between its rounds.
type call struct {
	id    uuid.UUID
	plan  seal.Hash                   // that decided on the first round
	asked [sha256.Size]byte           // digest of the core that the client sent
	sent  [sha256.Size]byte           // digest of the core that was forwarded
	core  jsonx.Value                 // the latter; nil when it is the client's, or too large
	keys  map[seal.Pseudonym]struct{} // under which the table has it; guarded by the table's mutex
}

// callTable holds the calls that may have another round, by a keyed digest of their state, the oldest
// of which makes room.
type callTable struct {
	mu    sync.Mutex // guards what follows
	calls map[seal.Pseudonym]*call
	order []seal.Pseudonym // ring of insertion
	next  int
	bytes int // of all cores
}

func newCallTable() *callTable { return &callTable{calls: make(map[seal.Pseudonym]*call)} }

func (t *callTable) put(key seal.Pseudonym, c *call) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if old, known := t.calls[key]; known {
		t.drop(key, old)
	} else if len(t.order) < maxCalls {
		t.order = append(t.order, key)
	} else {
		oldest := t.order[t.next]
		t.drop(oldest, t.calls[oldest])
		t.order[t.next] = key
		t.next = (t.next + 1) % maxCalls
	}
	if len(c.keys) == 0 {
		// A call is shared by its rounds: what is read of it does not change.
		if t.bytes+len(c.core) > maxCoreBytes {
			c = &call{id: c.id, plan: c.plan, asked: c.asked, sent: c.sent}
		}
		c.keys = make(map[seal.Pseudonym]struct{}, 1)
		t.bytes += len(c.core)
	}
	c.keys[key] = struct{}{}
	t.calls[key] = c
}

func (t *callTable) drop(key seal.Pseudonym, c *call) {
	delete(t.calls, key)
	if delete(c.keys, key); len(c.keys) == 0 {
		t.bytes -= len(c.core)
	}
}

func (t *callTable) get(key seal.Pseudonym) *call {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.calls[key]
}

// stateKey is the keyed digest of a state; without one it is made of who asked for what.
func (x *exchange) stateKey(state string) seal.Pseudonym {
	key := &x.lane.opts.Key
	if state != "" {
		return key.Pseudonym("state", state)
	}
	asked := coreDigest(x.msg.Params)
	return key.Pseudonym("round", x.caller.Principal.ID+"\x00"+x.session.id+"\x00"+x.msg.Method+"\x00"+string(asked[:]))
}

// rejoin finds the call that the request is a round of.
func (x *exchange) rejoin() {
	if x.reverse || (x.facts.requestState == "" && !x.facts.answers) {
		return
	}
	x.stateIn = x.stateKey(x.facts.requestState)
	if c := x.lane.calls.get(x.stateIn); c != nil {
		x.round, x.call = c, c.id
	}
}

// expectRound remembers the call for its next round, if the result asks for one.
func (x *exchange) expectRound(result jsonx.Value) {
	state := stateOf(result)
	if state == "" && !asksForInput(result) {
		return
	}
	ids := *x.ids // the request event keeps its own
	ids.StateOut = x.stateKey(state)
	x.ids = &ids
	c := x.round
	if c == nil {
		c = &call{id: x.call, asked: coreDigest(x.msg.Params), sent: coreDigest(x.forwards)}
		if x.inForce() != nil {
			c.plan = x.inForce().Digest()
		}
		if core := coreOf(x.forwards); c.sent != c.asked && len(core) <= maxCore {
			c.core = core
		}
	}
	x.lane.calls.put(ids.StateOut, c)
}

func asksForInput(result jsonx.Value) bool {
	if !bytes.Contains(result, []byte(`"inputRequests"`)) {
		return false
	}
	v, ok := jsonx.Lookup(result, "inputRequests")
	return ok && v[0] == '{'
}

// steady gives a round the mutation of the first one, where the same plan made another of the same
// params: a server may bind its state to the params that it saw. What goes out was decided on then.
// The state itself is never changed.
func (x *exchange) steady(params jsonx.Value, res *chain.Result) {
	if res.Modified {
		res.Payload = keepMember(params, res.Payload, "requestState")
	}
	c := x.round
	if c == nil || x.inForce() == nil || c.plan != x.inForce().Digest() || c.asked != coreDigest(params) {
		return
	}
	out := current(res, params)
	if coreDigest(out) == c.sent {
		return
	}
	core := c.core
	if core == nil {
		if c.sent != c.asked {
			return // too large to be remembered
		}
		core = coreOf(params)
	}
	res.Modified, res.Payload = true, withCore(out, core)
}

// keepMember puts back a member that must not be changed.
func keepMember(before, after jsonx.Value, name string) jsonx.Value {
	was, had := jsonx.Lookup(before, name)
	if is, has := jsonx.Lookup(after, name); !had || (has && bytes.Equal(was, is)) {
		return after
	}
	return wire.WithMember(after, name, was)
}
