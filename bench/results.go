package main

import (
	"fmt"
	"slices"
	"time"
)

// sample is one measurement.
type sample struct {
	System  string
	Clients int
	Round   int
	Backlog string // or which queues are asked
	Verb    string
	N       int
	Seconds float64
	P50     time.Duration
	P99     time.Duration
	CPU     time.Duration // of the servers
	Load    time.Duration // of the load
}

func (s *sample) rate() float64 { return float64(s.N) / s.Seconds }

// The backlogs at which there are samples.
const (
	backlogUsual  = "10,000"
	backlogBeside = "10,000, beside the deep one"
	backlogDeep   = "10,000,000"
	backlogAfter  = "after 5,000,000 pops"
)

// results are everything that was found out.
type results struct {
	Machine     machine
	Samples     []sample
	Depths      []depth
	Allocations map[string]float64 // by verb, of pqd beyond those of the echo
	Notes       []string
}

func (r *results) note(format string, args ...any) {
	r.Notes = append(r.Notes, fmt.Sprintf(format, args...))
}

func (r *results) add(system string, clients, round int, backlog string, measures []measure) {
	for _, m := range measures {
		if m.Warm || m.N == 0 {
			continue
		}
		r.Samples = append(r.Samples, sample{
			System: system, Clients: clients, Round: round, Backlog: backlog,
			Verb: m.Verb, N: m.N, Seconds: m.Seconds, P50: m.P50, P99: m.P99, CPU: m.CPU, Load: m.Load,
		})
	}
}

// median of what is read from the samples of a kind; 0 when there are none.
func (r *results) median(system, verb string, clients int, backlog string, read func(*sample) float64) float64 {
	var values []float64
	for i := range r.Samples {
		if s := &r.Samples[i]; s.System == system && s.Verb == verb && s.Clients == clients && s.Backlog == backlog {
			values = append(values, read(s))
		}
	}
	return median(values)
}

func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	slices.Sort(values)
	n := len(values)
	return (values[(n-1)/2] + values[n/2]) / 2
}

// rate is the median of operations a second.
func (r *results) rate(system, verb string, clients int, backlog string) float64 {
	return r.median(system, verb, clients, backlog, (*sample).rate)
}

// costs are the medians of the processor time that an operation took the
// servers and the load.
func (r *results) costs(system, verb string, clients int, backlog string) (servers, load time.Duration) {
	each := func(read func(*sample) time.Duration) time.Duration {
		return time.Duration(r.median(system, verb, clients, backlog, func(s *sample) float64 { return float64(read(s)) / float64(s.N) }))
	}
	return each(func(s *sample) time.Duration { return s.CPU }), each(func(s *sample) time.Duration { return s.Load })
}

func (r *results) p50(system, verb string, clients int) time.Duration {
	return time.Duration(r.median(system, verb, clients, backlogUsual, func(s *sample) float64 { return float64(s.P50) }))
}

func (r *results) p99(system, verb string, clients int) time.Duration {
	return time.Duration(r.median(system, verb, clients, backlogUsual, func(s *sample) float64 { return float64(s.P99) }))
}

// parts are what parts of the echoes right before and behind them the operations
// of a kind reached, sorted; none when there were no such echoes.
func (r *results) parts(system, verb string, clients int) (parts []float64) {
	echo := func(i int, beside *sample) float64 {
		if i < 0 || i >= len(r.Samples) {
			return 0
		}
		s := &r.Samples[i]
		if s.Verb != verbEcho || s.System != beside.System || s.Clients != beside.Clients || s.Round != beside.Round {
			return 0
		}
		return s.rate()
	}
	for i := range r.Samples {
		s := &r.Samples[i]
		if s.System != system || s.Verb != verb || s.Clients != clients || s.Backlog != backlogUsual {
			continue
		}
		if before, behind := echo(i-1, s), echo(i+1, s); before > 0 && behind > 0 {
			parts = append(parts, 2*s.rate()/(before+behind))
		}
	}
	slices.Sort(parts)
	return parts
}

// ratio of two rates; 0 when one is missing.
func ratio(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}
