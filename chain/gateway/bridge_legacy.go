package gateway

import (
	"bytes"
	"context"
	"log/slog"
	"strconv"

	"github.com/chaintrail/chaintrail/chain/wire"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

// maxRounds bounds how often a server may ask for input in one call that is translated.
const maxRounds = 32

// answerLegacy answers a client that spoke initialize from a server that knows no handshake.
func (f *far) answerLegacy(ctx context.Context, msg *wire.Message) (jsonx.Value, error) {
	switch msg.Method {
	case methodInitialize:
		return f.initialized(), nil
	case methodPing:
		return jsonx.Value("{}"), nil
	case methodSetLevel:
		level, _ := wire.Member(msg.Params, "level")
		f.mu.Lock()
		f.logLevel = bytes.Clone(level)
		f.mu.Unlock()
		return jsonx.Value("{}"), nil
	case methodSubscribe, methodUnsubscribe, methodDiscover, methodListen:
		return nil, f.cross(msg.Method)
	}
	params := msg.Params
	f.mu.Lock()
	level := f.logLevel
	f.mu.Unlock()
	if level != nil {
		meta, _ := wire.Member(params, "_meta")
		params = wire.WithMember(params, "_meta", wire.WithMember(meta, wire.MetaLogLevel, level))
	}
	for range maxRounds {
		result, err := f.client.Call(ctx, msg.Method, params)
		if err != nil {
			return nil, err //nolint:wrapcheck // it names the method, or is the server's answer
		}
		if kind, _ := wire.MemberString(result, "resultType"); kind != "input_required" {
			return result, nil
		}
		responses, err := f.ask(ctx, result)
		if err != nil {
			return nil, err
		}
		params = wire.WithMember(params, "inputResponses", responses)
		if state, ok := wire.Member(result, "requestState"); ok {
			params = wire.WithMember(params, "requestState", state)
		}
	}
	return nil, &wire.RPCError{Code: wire.CodeInternal, Message: "the server asked for input more than " + strconv.Itoa(maxRounds) + " times"}
}

// initialized makes the answer to initialize of that to server/discover.
func (f *far) initialized() jsonx.Value {
	out := jsonx.Value("{}")
	if f.server.Instructions != "" {
		text, _ := jsonx.AppendQuote(nil, f.server.Instructions)
		out = wire.WithMember(out, "instructions", text)
	}
	meta, _ := wire.Member(f.server.Result, "_meta")
	info, ok := wire.Member(meta, wire.MetaServerInfo)
	if !ok {
		info, ok = wire.Member(f.server.Result, "serverInfo")
	}
	if !ok {
		name, _ := jsonx.AppendQuote(nil, f.bridge.lane.backend.Name)
		info = wire.WithMember(jsonx.Value(`{"version":"unknown"}`), "name", name)
	}
	out = wire.WithMember(out, "serverInfo", info)
	out = wire.WithMember(out, "capabilities", withoutSubscriptions(f.server.Capabilities))
	version, _ := jsonx.AppendQuote(nil, f.version)
	return wire.WithMember(out, "protocolVersion", version)
}

// withoutSubscriptions takes out of capabilities what cannot cross: notifications of changes.
func withoutSubscriptions(capabilities jsonx.Value) jsonx.Value {
	out := jsonx.Value("{}")
	for m := range jsonx.Members(capabilities) {
		value := m.Value
		switch string(m.Name) {
		case "tools", "prompts", "resources":
			value = without(value, func(name string) bool { return name == "listChanged" || name == "subscribe" })
		}
		out = wire.WithMember(out, string(m.Name), value)
	}
	return out
}

// without leaves members out of an object.
func without(object jsonx.Value, drop func(name string) bool) jsonx.Value {
	out := []byte{'{'}
	for m := range jsonx.Members(object) {
		if !drop(string(m.Name)) {
			out = appendMember(out, m)
		}
	}
	return append(out, '}')
}

// ask hands each entry of a result's inputRequests to the client as a request of the server, and
// returns its answers as inputResponses.
func (f *far) ask(ctx context.Context, result jsonx.Value) (jsonx.Value, error) {
	requests, _ := wire.Member(result, "inputRequests")
	responses := jsonx.Value("{}")
	for m := range jsonx.Members(requests) {
		method, _ := wire.MemberString(m.Value, "method")
		params, _ := wire.Member(m.Value, "params")
		msg, err := f.askOne(ctx, method, params)
		if err != nil {
			return nil, err
		}
		if msg.Kind == wire.KindError {
			f.bridge.lane.log.DebugContext(ctx, "the client refused what the server asked for", slog.Int("code", msg.RPCError().Code))
			return nil, &wire.RPCError{Code: wire.CodeInternal, Message: "the client refused the server's " + method + ": " + msg.RPCError().Message}
		}
		responses = wire.WithMember(responses, string(m.Name), msg.Result)
	}
	return responses, nil
}

func (f *far) askOne(ctx context.Context, method string, params jsonx.Value) (wire.Message, error) {
	if method == "" {
		return wire.Message{}, malformedAnswer("an entry of inputRequests without a method")
	}
	waits := make(chan wire.Message, 1)
	f.mu.Lock()
	f.next++
	id := strconv.AppendUint([]byte(`"bridge-`), f.next, 10)
	id = append(id, '"')
	f.asked[wire.IDKey(id)] = waits
	f.mu.Unlock()
	f.bridge.deliver(wire.NewRequest(id, method, params))
	select {
	case msg := <-waits:
		return msg, nil
	case <-ctx.Done():
		f.mu.Lock()
		delete(f.asked, wire.IDKey(id))
		f.mu.Unlock()
		return wire.Message{}, context.Cause(ctx)
	}
}
