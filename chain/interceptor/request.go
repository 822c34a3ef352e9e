package interceptor

import (
	"context"
	"net/http"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Request is what the transport knows of an invocation. It is about the invoker, who need not be the one who made the
// operation: that one is in [Call.Caller].
type Request struct {
	Session *mcp.ServerSession // on a go-sdk server; else nil
	Header  http.Header        // over HTTP; else nil. It MUST NOT be changed
	Token   *auth.TokenInfo    // where the go-sdk's bearer token middleware stands before; else nil
}

// requestKey is the context key of a Request.
type requestKey struct{}

// RequestOf returns what is known of the request that a handler's ctx belongs to; everything in it may be nil.
// Values that HTTP middleware before [Server.HTTPHandler] put into the request's context are in ctx itself.
func RequestOf(ctx context.Context) Request {
	r, _ := ctx.Value(requestKey{}).(*Request)
	if r == nil {
		return Request{}
	}
	return *r
}

func withRequest(ctx context.Context, r *Request) context.Context {
	return context.WithValue(ctx, requestKey{}, r)
}
