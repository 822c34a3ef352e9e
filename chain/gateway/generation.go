package gateway

import (
	"sync/atomic"

	"github.com/chaintrail/chaintrail/chain/wire"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

// generation is one of the two in which MCP is spoken: with a handshake and a session up to 2025-11-25,
// or from 2026-07-28 on with neither.
type generation uint8

const (
	legacyGeneration generation = iota
	modernGeneration
)

// versions are the protocol version that stands for each.
func (g generation) version() string {
	if g == modernGeneration {
		return wire.Version20260728
	}
	return wire.Version20251125
}

func (g generation) other() generation { return 1 - g }

func generationOf(version string) generation {
	if stateless(version) {
		return modernGeneration
	}
	return legacyGeneration
}

// speaks is the generation that a request of a client proves; false: it proves none.
func speaks(msg *wire.Message, version string) (generation, bool) {
	switch {
	case msg.Method == methodInitialize:
		return legacyGeneration, true
	case msg.Method == methodDiscover || stateless(version) || stateless(wire.MetaOf(msg.Params).ProtocolVersion):
		return modernGeneration, true
	}
	return legacyGeneration, false
}

// generations is what a backend was seen to serve and to refuse. The zero value knows nothing.
type generations [2]atomic.Int32

const (
	served  = 1
	refused = -1
)

func (g *generations) is(of generation, what int32) bool { return g[of].Load() == what }

func (g *generations) learn(of generation, what int32) { g[of].Store(what) }

// crosses reports whether requests of that generation have to be translated.
func (g *generations) crosses(of generation) bool {
	return g.is(of, refused) && g.is(of.other(), served)
}

// refuses reports whether an answer may mean that the server does not know the generation of the
// request, and did not act on it.
func refuses(request, answered *wire.Message) bool {
	if answered.Kind == wire.KindResponse {
		return request.Method == methodDiscover && !offers(answered.Result)
	}
	if request.Method == methodInitialize || request.Method == methodDiscover {
		return true
	}
	return answered.RPCError().Code != wire.CodeInternal
}

// refusalStatus reports whether an HTTP status may mean that.
func refusalStatus(status int) bool {
	return status/100 == 4 && status != 401 && status != 403 && status != 407 && status != 429
}

// offers reports whether a result of server/discover has a version of that generation that we speak.
func offers(result jsonx.Value) bool {
	supported, _ := wire.Member(result, "supportedVersions")
	for v := range jsonx.Elements(supported) {
		if s, ok := jsonx.StringOf(v); ok && s == wire.Version20260728 {
			return true
		}
	}
	return false
}

// saysVersion reports whether an error code says that the generation of the request is not served.
func saysVersion(method string, code int) bool {
	return code == wire.CodeVersion || (code == wire.CodeMethodNotFound && (method == methodInitialize || method == methodDiscover))
}
