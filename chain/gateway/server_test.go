package gateway

import (
	"context"
	"errors"
	"os"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

// sdkServer is a real server with the tools that the tests need.
// Its tool "hang" ends with its call, or with stop: the go-sdk forgets to end a call whose client left
// at once.
func sdkServer(stop <-chan struct{}) *mcp.Server { return sdkServerOf(nil, stop) }

// sdkServerOf is sdkServer with only some protocol versions; nil: all.
func sdkServerOf(versions []string, stop <-chan struct{}) *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "backend", Version: "1"}, &mcp.ServerOptions{
		SupportedProtocolVersions: versions,
		SubscribeHandler:          func(context.Context, *mcp.SubscribeRequest) error { return nil },
		UnsubscribeHandler:        func(context.Context, *mcp.UnsubscribeRequest) error { return nil },
	})
	type args struct {
		Text string `json:"text,omitempty"`
	}
	mcp.AddTool(s, &mcp.Tool{Name: "echo"}, func(_ context.Context, _ *mcp.CallToolRequest, a args) (*mcp.CallToolResult, any, error) {
		return text(a.Text), nil, nil
	})
	mcp.AddTool(s, &mcp.Tool{Name: "fail"}, func(context.Context, *mcp.CallToolRequest, args) (*mcp.CallToolResult, any, error) {
		return nil, nil, errors.New("it failed")
	})
	mcp.AddTool(s, &mcp.Tool{Name: "progress"}, func(ctx context.Context, r *mcp.CallToolRequest, _ args) (*mcp.CallToolResult, any, error) {
		for i := range 3 {
			err := r.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: r.Params.GetProgressToken(), Progress: float64(i + 1)})
			if err != nil {
				return nil, nil, err
			}
		}
		return text("done"), nil, nil
	})
	mcp.AddTool(s, &mcp.Tool{Name: "elicit"}, func(ctx context.Context, r *mcp.CallToolRequest, _ args) (*mcp.CallToolResult, any, error) {
		res, err := r.Session.Elicit(ctx, &mcp.ElicitParams{Message: "who?", RequestedSchema: jsonx.Value(`{"type":"object","properties":{"name":{"type":"string"}}}`)})
		if err != nil {
			return text("refused: " + err.Error()), nil, nil //nolint:nilerr // the test reads it in the result
		}
		name, _ := res.Content["name"].(string)
		return text(res.Action + " " + name), nil, nil
	})
	mcp.AddTool(s, &mcp.Tool{Name: "hang"}, func(ctx context.Context, _ *mcp.CallToolRequest, _ args) (*mcp.CallToolResult, any, error) {
		select {
		case <-ctx.Done():
		case <-stop:
		}
		return nil, nil, context.Canceled
	})
	s.AddTool(&mcp.Tool{Name: "routed", InputSchema: jsonx.Value(`{"type":"object","properties":{
		"where":{"type":"string","x-mcp-header":"Region"},"note":{"type":"string"},
		"deep":{"type":"object","properties":{"n":{"type":"integer","x-mcp-header":"Count"},"on":{"type":"boolean","x-mcp-header":"On"}}}}}`)},
		func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return text(string(r.Params.Arguments)), nil
		})
	gate := make(chan struct{})
	mcp.AddTool(s, &mcp.Tool{Name: "wait"}, func(ctx context.Context, _ *mcp.CallToolRequest, _ args) (*mcp.CallToolResult, any, error) {
		select {
		case <-gate:
			return text("opened"), nil, nil
		case <-ctx.Done():
		case <-stop:
		}
		return nil, nil, context.Canceled
	})
	mcp.AddTool(s, &mcp.Tool{Name: "open"}, func(context.Context, *mcp.CallToolRequest, args) (*mcp.CallToolResult, any, error) {
		close(gate)
		return text("ok"), nil, nil
	})
	mcp.AddTool(s, &mcp.Tool{Name: "update"}, func(ctx context.Context, _ *mcp.CallToolRequest, a args) (*mcp.CallToolResult, any, error) {
		return text("ok"), nil, s.ResourceUpdated(ctx, &mcp.ResourceUpdatedNotificationParams{URI: "test://" + a.Text})
	})
	s.AddTool(&mcp.Tool{Name: "rounds", InputSchema: jsonx.Value(`{"type":"object"}`)}, func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		if res, ok := r.Params.InputResponses["who"].(*mcp.ElicitResult); ok {
			name, _ := res.Content["name"].(string)
			return text(name), nil
		}
		ask := &mcp.ElicitParams{Message: "who?", RequestedSchema: jsonx.Value(`{"type":"object","properties":{"name":{"type":"string"}}}`)}
		return &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{"who": ask}, RequestState: "state"}, nil
	})
	s.AddResource(&mcp.Resource{URI: "test://r", Name: "r"}, func(context.Context, *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: "test://r", Text: "r"}}}, nil
	})
	return s
}

func text(s string) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: s}}}
}

func textOf(t *testing.T, res *mcp.CallToolResult, err error) string {
	t.Helper()
	if err != nil {
		t.Fatalf("call: %v", err)
	}
	if len(res.Content) != 1 {
		t.Fatalf("got %d contents, want 1", len(res.Content))
	}
	return res.Content[0].(*mcp.TextContent).Text
}

func runChild(kind string) {
	switch kind {
	case "crash":
		os.Exit(3)
	case "noisy":
		_, _ = os.Stdout.WriteString("starting up …\n{\"level\":\"info\"}\n{{{\n\n")
		_ = sdkServer(nil).Run(context.Background(), &mcp.StdioTransport{})
	case "dies":
		s := sdkServer(nil)
		mcp.AddTool(s, &mcp.Tool{Name: "die"}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
			os.Exit(9)
			return nil, nil, nil
		})
		_ = s.Run(context.Background(), &mcp.StdioTransport{})
	case "legacy":
		_ = pinned(legacyGeneration, nil).Run(context.Background(), &mcp.StdioTransport{})
	case "modern":
		_ = pinned(modernGeneration, nil).Run(context.Background(), &mcp.StdioTransport{})
	case "sdk":
		_ = sdkServer(nil).Run(context.Background(), &mcp.StdioTransport{})
	}
}
