package main

import (
	"math"
	"slices"
	"time"
)

// samples are durations in the order of their measurement.
type samples []time.Duration

// p returns a percentile in µs; NaN when there is none.
func (s samples) p(percent int) float64 {
	if len(s) == 0 {
		return math.NaN()
	}
	sorted := slices.Clone(s)
	slices.Sort(sorted)
	return micros(sorted[min(len(sorted)-1, len(sorted)*percent/100)])
}

func (s samples) p50() float64 { return s.p(50) }

// blocks cuts the samples into n runs of equal length, to see how a figure moved within the run.
func (s samples) blocks(n int) []samples {
	if len(s) < n {
		return nil
	}
	return slices.Collect(slices.Chunk(s[:len(s)/n*n], len(s)/n))
}

// calmest says what the fastest tenth stayed under: what it costs when nothing else wants the processor.
func calmest(s samples) string { return " (fastest tenth " + number(s.p(10)) + ")" }

func micros(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 }

func median(values []float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	sorted := slices.Clone(values)
	slices.Sort(sorted)
	return sorted[len(sorted)/2]
}
