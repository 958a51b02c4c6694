package main

import (
	"slices"
	"strings"
	"testing"
	"time"
)

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		values []float64
		want   float64
	}{
		{nil, 0},
		{[]float64{7}, 7},
		{[]float64{9, 1, 4}, 4},
		{[]float64{4, 1, 100, 2}, 3},
	} {
		if got := median(c.values); got != c.want {
			t.Errorf("median of %v: found %v, expected %v", c.values, got, c.want)
		}
	}
}

func TestNumber(t *testing.T) {
	for n, want := range map[float64]string{0: "0", 7.4: "7", 999: "999", 1234: "1,230", 28_461: "28,500", 10_000_000: "10,000,000"} {
		if got := number(n); got != want {
			t.Errorf("%v: found %s, expected %s", n, got, want)
		}
	}
}

// sampled are results in which every verb takes the same time, at one client
// and at many, and so do the echoes around those of pqd.
func sampled() *results {
	r := &results{Allocations: map[string]float64{nameEcho: 14, verbPush: 13, verbPop: 9}}
	for _, clients := range []int{1, 64, 256} {
		for round, n := range []int{100, 300, 200} {
			for _, s := range systems {
				for _, verb := range s.verbs {
					m := measure{Verb: verb, N: n, Seconds: 1, P50: time.Second / time.Duration(n), P99: time.Second}
					measures := []measure{m, {Verb: verb, Warm: true, N: 9999, Seconds: 1}}
					if echo := (measure{Verb: verbEcho, N: n, Seconds: 1}); s.name == namePQD {
						measures = []measure{echo, m, echo}
					}
					r.add(s.name, clients, round, backlogUsual, measures)
				}
			}
		}
	}
	return r
}

func TestRatesAreMedians(t *testing.T) {
	r := sampled()
	if got := r.rate(namePQD, verbPop, 64, backlogUsual); got != 200 {
		t.Errorf("found %v a second, expected 200, what warms up left out", got)
	}
	if got := r.p50(namePQD, verbPop, 1); got != 5*time.Millisecond {
		t.Errorf("p50: found %s, expected 5ms", got)
	}
	if got := r.rate(nameEcho, verbPop, 64, backlogUsual); got != 0 {
		t.Errorf("found %v pops a second from the echo, expected none", got)
	}
}

// An operation is compared with the echoes of its own turn alone.
func TestPartsOfEcho(t *testing.T) {
	measured := func(verb string, n int) measure { return measure{Verb: verb, N: n, Seconds: 2} }
	var r results
	r.add(namePQD, 64, 0, backlogUsual, []measure{
		measured(verbEcho, 100), measured(verbPush, 100), measured(verbEcho, 300), measured(verbPop, 150), measured(verbEcho, 300), measured(verbPush, 90),
	})
	r.add(namePQD, 64, 1, backlogUsual, []measure{
		measured(verbEcho, 100), {Verb: verbPop, Warm: true, N: 1, Seconds: 1}, measured(verbPush, 80), measured(verbEcho, 100), measured(verbPop, 10),
	})
	for verb, want := range map[string][]float64{verbPush: {0.5, 0.8}, verbPop: {0.5}, verbLease: nil} {
		if got := r.parts(namePQD, verb, 64); !slices.Equal(got, want) {
			t.Errorf("%s: found %v, expected %v", verb, got, want)
		}
	}
	if got := r.parts(namePQD, verbPush, 256); got != nil {
		t.Errorf("with other clients: found %v, expected none", got)
	}
}

func TestAmongEchoes(t *testing.T) {
	p := plan{phase: 2 * time.Second}
	echo := step{Verb: verbEcho, Limit: time.Second}
	warm, push, pop := step{Verb: verbPush, Warm: true}, step{Verb: verbPush}, step{Verb: verbPop}
	if got, want := p.amongEchoes([]step{warm, push, pop}),
		[]step{{Verb: verbEcho, Limit: 400 * time.Millisecond, Warm: true}, warm, echo, push, echo, pop, echo}; !slices.Equal(got, want) {
		t.Errorf("found %v, expected %v", got, want)
	}
}

func TestTableLinesUp(t *testing.T) {
	var out strings.Builder
	sampled().write(&out)
	width := 0
	for line := range strings.Lines(out.String()) {
		if !strings.HasPrefix(line, "|") {
			width = 0
			continue
		}
		if n := len([]rune(line)); width == 0 {
			width = n
		} else if n != width {
			t.Errorf("%q has %d characters, expected %d as the line above", line, n, width)
		}
	}
	for _, s := range systems {
		if !strings.Contains(out.String(), "\n- "+s.name) {
			t.Errorf("the report does not say how %s was set up", s.name)
		}
	}
}

func TestPayloadsDiffer(t *testing.T) {
	p := newPayloads(1)
	seen, counts := make(map[string]bool), make(map[int]int)
	for range 10_000 {
		item := p.next()
		if len(item) != payloadSize || seen[string(item)] {
			t.Fatalf("item %q: expected %d bytes that were not there before", item, payloadSize)
		}
		seen[string(item)] = true
		counts[p.priority()]++
	}
	if len(counts) != priorities || counts[0] != 1000 {
		t.Errorf("expected 1000 items of each of %d priorities, found %v", priorities, counts)
	}
}
