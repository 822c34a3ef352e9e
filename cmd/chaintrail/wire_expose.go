package main

import (
	"context"

	"github.com/chaintrail/chaintrail/chain"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

// hosted offers the interceptors of the configuration in force to the gateway's clients.
type hosted struct{ node *node }

func (h hosted) directory() *chain.Directory { return h.node.force.Load().set.Directory() }

// Events implements gateway.Directory.
func (h hosted) Events() []string { return h.directory().Events() }

// List implements gateway.Directory.
func (h hosted) List(ctx context.Context, params jsonx.Value) (jsonx.Value, error) {
	return h.directory().List(ctx, params)
}

// Invoke implements gateway.Directory.
func (h hosted) Invoke(ctx context.Context, params jsonx.Value) (jsonx.Value, error) {
	return h.directory().Invoke(ctx, params)
}
