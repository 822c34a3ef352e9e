// Package llm has the payloads of the SEP-2624 event llm/completion: a model call inside a host. No MCP message carries
// it; a host takes its own model calls through a plan, see the example.
package llm

import "github.com/chaintrail/chaintrail/schemas/jsonx"

// Event is the name of the event.
const Event = "llm/completion"

// Request is the payload of the request phase.
type Request struct {
	Model       string                 `json:"model"`
	Messages    []Message              `json:"messages"`
	MaxTokens   *int                   `json:"maxTokens,omitzero"`
	Temperature *float64               `json:"temperature,omitzero"`
	Metadata    map[string]jsonx.Value `json:"metadata,omitzero"`
}

// Response is the payload of the response phase.
type Response struct {
	Model      string                 `json:"model"`
	Message    Message                `json:"message"`
	StopReason string                 `json:"stopReason,omitzero"`
	Usage      *Usage                 `json:"usage,omitzero"`
	Metadata   map[string]jsonx.Value `json:"metadata,omitzero"`
}

// Message is one turn of a conversation.
type Message struct {
	Role    string      `json:"role"`
	Content jsonx.Value `json:"content"` // a text, or what the model takes beside it
}

// Usage counts tokens.
type Usage struct {
	InputTokens  int `json:"inputTokens"`
	OutputTokens int `json:"outputTokens"`
}

// Text makes the content of a message from a text; what is not UTF-8 becomes U+FFFD.
func Text(s string) jsonx.Value {
	b, _ := jsonx.AppendQuote(nil, s)
	return b
}

// Text returns the content when it is a text, and "" for anything else.
func (m *Message) Text() string {
	s, _ := jsonx.StringOf(m.Content)
	return s
}
