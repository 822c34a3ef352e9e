package gateway

import (
	"context"
	"net/http"
)

// hub serves HTTP clients of a stdio server.
type hub struct {
	lane *lane
	life *life
}

func newHub(l *lane, lf *life) *hub { return &hub{lane: l, life: lf} }

// ServeHTTP implements http.Handler.
func (h *hub) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	http.Error(w, "not yet", http.StatusNotImplemented)
}

func (h *hub) close(context.Context) {}
