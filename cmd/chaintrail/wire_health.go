package main

import (
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/chaintrail/chaintrail/chain"
	"github.com/chaintrail/chaintrail/internal/telemetry"
	"github.com/chaintrail/chaintrail/schemas"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

// breakerMetrics tells of each interceptor in the request path whether it answers.
type breakerMetrics struct {
	states                 func() []chain.BreakerState
	open, failures, opened *prometheus.Desc
}

func newBreakerMetrics(states func() []chain.BreakerState) *breakerMetrics {
	desc := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc(prometheus.BuildFQName(telemetry.Namespace, "breaker", name), help, []string{"host", "interceptor"}, nil)
	}
	return &breakerMetrics{
		states:   states,
		open:     desc("open", "1 while the interceptor is not asked because it failed too often."),
		failures: desc("consecutive_failures", "Failures since the interceptor last answered."),
		opened:   desc("opened_total", "How often the breaker was opened."),
	}
}

// Describe implements prometheus.Collector.
func (m *breakerMetrics) Describe(ch chan<- *prometheus.Desc) {
	ch <- m.open
	ch <- m.failures
	ch <- m.opened
}

// Collect implements prometheus.Collector.
func (m *breakerMetrics) Collect(ch chan<- prometheus.Metric) {
	for _, s := range m.states() {
		open := 0.0
		if s.Open {
			open = 1
		}
		ch <- prometheus.MustNewConstMetric(m.open, prometheus.GaugeValue, open, s.Host, s.Interceptor)
		ch <- prometheus.MustNewConstMetric(m.failures, prometheus.GaugeValue, float64(s.Failures), s.Host, s.Interceptor)
		ch <- prometheus.MustNewConstMetric(m.opened, prometheus.CounterValue, float64(s.Opened), s.Host, s.Interceptor)
	}
}

// planReport is what /plan shows.
type planReport struct {
	Plan   schemas.Plan   `json:"plan"`
	Health []healthReport `json:"health"`
}

type healthReport struct {
	Host        string `json:"host"`
	Interceptor string `json:"interceptor"`
	Breaker     string `json:"breaker"` // "open" or "closed"
	Failures    int    `json:"consecutive_failures"`
	Retry       string `json:"retry_at,omitzero"` // RFC 3339
}

// servePlan answers with the plan in force and the health of its interceptors.
func (n *node) servePlan(w http.ResponseWriter, _ *http.Request) {
	f := n.force.Load()
	if f == nil || f.set.Current() == nil {
		http.Error(w, "no plan is in force in this process", http.StatusNotFound)
		return
	}
	report := planReport{Health: []healthReport{}}
	report.Plan, _ = f.set.Current().Record()
	for _, s := range f.breakers.States() {
		h := healthReport{Host: s.Host, Interceptor: s.Interceptor, Breaker: "closed", Failures: s.Failures}
		if s.Open {
			h.Breaker, h.Retry = "open", s.Retry.UTC().Format(time.RFC3339Nano)
		}
		report.Health = append(report.Health, h)
	}
	text, err := jsonx.MarshalIndent(report)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(text)
}
