package llm_test

import (
	"context"
	"fmt"
	"log"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/chaintrail/chaintrail/chain"
	"github.com/chaintrail/chaintrail/chain/exchange"
	"github.com/chaintrail/chaintrail/chain/interceptor"
	"github.com/chaintrail/chaintrail/chain/llm"
	"github.com/chaintrail/chaintrail/schemas"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

func TestPayloadsComeBackAsTheyWere(t *testing.T) {
	t.Parallel()
	request := `{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"hi"}]}],"maxTokens":0,"temperature":0,"metadata":{"n":90071992547409931234}}`
	response := `{"model":"m","message":{"role":"assistant","content":"hi"},"stopReason":"endTurn","usage":{"inputTokens":1,"outputTokens":2},"metadata":{"a":null}}`
	var req llm.Request
	var res llm.Response
	for text, v := range map[string]any{request: &req, response: &res} {
		if err := jsonx.Unmarshal([]byte(text), v); err != nil {
			t.Fatal(err)
		}
		got, err := jsonx.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(text, string(got)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
}

// A host takes its model calls through the same plan as its MCP calls.
func Example() {
	ctx := context.Background()
	rules, err := chain.NewLocalChain(nil, interceptor.TypedMutator(
		interceptor.Descriptor{Name: "house-style", Hooks: interceptor.OnRequest(llm.Event)},
		func(_ context.Context, _ *interceptor.Call, r *llm.Request) (bool, error) {
			r.Messages = append([]llm.Message{{Role: "system", Content: llm.Text("Be brief.")}}, r.Messages...)
			return true, nil
		}))
	if err != nil {
		log.Fatal(err)
	}
	host, err := exchange.New(exchange.Options{
		Plan: rules.Plan, Background: rules.Background(), Server: "model", Request: schemas.Sending,
	})
	if err != nil {
		log.Fatal(err)
	}
	model := func(_ context.Context, r *llm.Request) (*llm.Response, error) { // the call of a real model stands here
		var heard []string
		for i := range r.Messages {
			heard = append(heard, r.Messages[i].Text())
		}
		return &llm.Response{Model: r.Model, Message: llm.Message{Role: "assistant", Content: llm.Text(strings.Join(heard, " | "))}}, nil
	}
	answer, err := exchange.DoTyped(ctx, host, exchange.Request{Method: llm.Event},
		&llm.Request{Model: "small", Messages: []llm.Message{{Role: "user", Content: llm.Text("Why is the sky blue?")}}}, model)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(answer.Message.Text())
	_ = rules.Close(ctx)
	// Output: Be brief. | Why is the sky blue?
}
