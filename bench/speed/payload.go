package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"uuid"

	"github.com/chaintrail/chaintrail/schemas"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
	"github.com/chaintrail/chaintrail/schemas/seal"
)

const (
	payloadBytes = 2 << 10
	toolName     = "summarise"
)

// prose is text of n bytes such as tools are called with: words, escapes, a line end here and there.
func prose(n int) string {
	const sentence = `The quarterly figures for region 7 are in the \"final\" sheet; compare them with last year.\n`
	return strings.Repeat(sentence, n/len(sentence)+1)[:n-n%len(sentence)] + strings.Repeat("x", n%len(sentence))
}

// callParams are the params of a tools/call of n bytes.
func callParams(n int) jsonx.Value {
	head := `{"name":"` + toolName + `","arguments":{"project":"alpha","limit":20,"text":"`
	return jsonx.Value(head + prose(n-len(head)-3) + `"}}`)
}

// callResult is a result of n bytes.
func callResult(n int) jsonx.Value {
	head := `{"content":[{"type":"text","text":"`
	return jsonx.Value(head + prose(n-len(head)-4) + `"}]}`)
}

// rpcRequest is a whole tools/call.
func rpcRequest(id int, params jsonx.Value) []byte {
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":%s}`, id, params)
}

// maker makes records as the gateway does.
type maker struct {
	key     seal.Key
	session string
	params  jsonx.Value
	result  jsonx.Value
	digest  seal.Hash
	count   int
}

func newMaker() *maker {
	return &maker{
		key: seal.Key{1, 2, 3}, session: uuid.NewV4().String(),
		params: callParams(payloadBytes), result: callResult(payloadBytes), digest: seal.Hash{7},
	}
}

// call makes the two records of one call.
func (m *maker) call() (request, outcome *schemas.Record) {
	m.count++
	exchange := uuid.NewV7()
	id := strconv.Itoa(m.count)
	ids := &schemas.Correlation{
		Exchange: exchange, Call: exchange,
		Session: m.key.Pseudonym("session", m.session), RequestID: m.key.Pseudonym("request", id),
		TraceID: "0af7651916cd43dd8448eb211c80319c", SpanID: "b7ad6b7169203331",
		ProtocolVersion: "2025-11-25", Transport: "http",
	}
	actor := &schemas.Actor{Type: "user", Pseudonym: m.key.Pseudonym("principal", "ann"), VerifiedBy: "header:X-User"}
	op := schemas.Operation{
		Event: "tools/call", Phase: schemas.PhaseRequest, Direction: schemas.Sending, Server: "files",
		Target: toolName, TargetRef: m.key.Pseudonym("target", toolName),
	}
	back := op
	back.Phase, back.Direction = schemas.PhaseResponse, schemas.Receiving
	request = &schemas.Record{Event: schemas.Event{
		ID: uuid.NewV7(), Kind: schemas.KindRequest, Correlation: ids, Actor: actor, Operation: &op,
		Decision: &schemas.Decision{Status: schemas.StatusNotRun, PlanDigest: m.digest},
	}, Items: make([]schemas.OpenItem, 0, 4)}
	request.Add(schemas.RoleBefore, 0, m.params)
	request.Add(schemas.RoleContext, 0, m.context(id))
	outcome = &schemas.Record{Event: schemas.Event{
		ID: uuid.NewV7(), Kind: schemas.KindOutcome, Correlation: ids, Actor: actor, Operation: &back,
		Decision: &schemas.Decision{
			Status: schemas.StatusNotRun, Outcome: schemas.OutcomeAllowed, PlanDigest: m.digest,
			BackendUS: 1800, TotalUS: 2100, StartedAt: schemas.At(time.Now()),
		},
	}, Items: make([]schemas.OpenItem, 0, 4)}
	outcome.Add(schemas.RoleBefore, 0, m.result)
	return request, outcome
}

func (m *maker) context(id string) []byte {
	return fmt.Appendf(nil, `{"session_id":%q,"request_id":%s,"method":"tools/call","target":%q,"principal_type":"user","principal":"ann",`+
		`"client_name":"bench","client_version":"1.0.0","client_address":"127.0.0.1:50412","user_agent":"bench/1","protocol_version":"2025-11-25"}`,
		m.session, id, toolName)
}
