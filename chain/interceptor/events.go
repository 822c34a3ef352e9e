package interceptor

// The events of SEP-2624. All but EventLLMCompletion are MCP methods; further methods and names of one's own, written
// namespace/operation, are events too.
const (
	EventToolsList          = "tools/list"
	EventToolsCall          = "tools/call"
	EventPromptsList        = "prompts/list"
	EventPromptsGet         = "prompts/get"
	EventResourcesList      = "resources/list"
	EventResourcesRead      = "resources/read"
	EventResourcesSubscribe = "resources/subscribe"
	EventSamplingCreate     = "sampling/createMessage" // from server to client
	EventElicitationCreate  = "elicitation/create"     // from server to client
	EventRootsList          = "roots/list"             // from server to client
	EventLLMCompletion      = "llm/completion"         // a model call of a host; the payload is its raw body
	EventAll                = "*"                      // in a hook: every event
	EventAllTools           = "tools/*"                // in a hook, as for any namespace; hosts MAY support it
	EventAllPrompts         = "prompts/*"
	EventAllResources       = "resources/*"
)

// Events lists the events that SEP-2624 names, wildcards left out.
func Events() []string {
	return []string{
		EventToolsList, EventToolsCall, EventPromptsList, EventPromptsGet, EventResourcesList, EventResourcesRead,
		EventResourcesSubscribe, EventSamplingCreate, EventElicitationCreate, EventRootsList, EventLLMCompletion,
	}
}
