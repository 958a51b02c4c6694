//go:build fdb && benchfdb

package performance_test

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// report prints the tables: of each cell the round with the median rate, and medians of the
// ratios to other cells of the same round.
func (b *manyQueues) report() {
	var out strings.Builder
	b.reportBare(&out)
	b.reportTable(&out, oneTable, "of one queue", oneShapes, oneSpreads, func(c cell) cell {
		c.on = oneQueue
		return c
	})
	b.reportTable(&out, severalTable, "of one pqd", shapes, severalSpreads, func(c cell) cell {
		c.through = shapes[0]
		return c
	})
	b.reportGoals(&out)
	b.Log("\n" + out.String())
}

func (b *manyQueues) reportBare(out *strings.Builder) {
	fmt.Fprintf(out, "%s\n\n| clients | | a second | p50 / p99 |\n| ---: | --- | ---: | ---: |\n", bareTable)
	for _, s := range oneShapes {
		for _, kind := range bareKinds {
			if f, is := b.median(cell{table: bareTable, kind: kind, through: s}); is {
				fmt.Fprintf(out, "| %d | %s | %s | %s |\n", s.clients, kind, thousands(int(f.rate)), p50p99(f.took))
			}
		}
	}
}

func (b *manyQueues) reportTable(out *strings.Builder, table, of string, through []shape, on []spread, base func(cell) cell) {
	if !slices.ContainsFunc(slices.Collect(maps.Keys(b.found)), func(c cell) bool { return c.table == table }) {
		return
	}
	fmt.Fprintf(out, "\n%s\n\n| pqd × clients | | queues | a second | %s | of bare sets | p50 / p99, ms | at half load | requests a batch | requests a commit | ms a batch | conflicts a request |\n", table, of)
	fmt.Fprintln(out, "| --- | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
	for _, kind := range queueKinds {
		for _, on := range on {
			for _, s := range through {
				c := cell{table, kind, on, s}
				f, is := b.median(c)
				if !is {
					continue
				}
				w := f.batches
				fmt.Fprintf(out, "| %s | %s | %s | %s | %s | %s | %s | %s | %.1f | %.1f | %.1f | %.3f |\n", s, kind, on, thousands(int(f.rate)),
					share(b.ratio(c, base(c))), share(b.ratio(c, cell{table: bareTable, kind: setKind, through: shape{1, c.clients()}})),
					p50p99(f.took), p50p99(f.half), w.requests/w.batches, w.requests/w.commits, 1000*w.busy/w.batches, w.conflicts/w.requests)
			}
		}
	}
}

// reportGoals compares what was wanted with what was found.
func (b *manyQueues) reportGoals(out *strings.Builder) {
	fmt.Fprintln(out)
	goal := func(what string, want float64, c, base cell) {
		if found := b.ratio(c, base); found > 0 {
			fmt.Fprintf(out, "%s: %.2f, wanted %.2f\n", what, found, want)
		}
	}
	for _, kind := range queueKinds {
		many := cell{oneTable, kind, spread{Queues: 1000}, shape{1, 256}}
		one := many
		one.on = oneQueue
		goal("256 clients, 1,000 queues to one: "+kind, 0.8, many, one)
	}
	goal("64 clients, one queue: pairs to pushes", 0.45, cell{oneTable, pairKind, oneQueue, shape{1, 64}}, cell{oneTable, pushKind, oneQueue, shape{1, 64}})
	for _, kind := range queueKinds {
		goal("4 × 16 to 1 × 64, one queue: "+kind, 1, cell{severalTable, kind, oneQueue, shape{4, 16}}, cell{severalTable, kind, oneQueue, shape{1, 64}})
	}
}

// median is the round with the median rate.
func (b *manyQueues) median(c cell) (found, bool) {
	all := slices.SortedFunc(slices.Values(b.found[c]), func(a, b found) int { return cmp.Compare(a.rate, b.rate) })
	if len(all) == 0 {
		return found{}, false
	}
	return all[len(all)/2], true
}

// ratio is the median of the rounds' ratios; 0: one of the two was not measured.
func (b *manyQueues) ratio(c, base cell) float64 {
	of := b.found[base]
	if len(of) == 0 || len(b.found[c]) == 0 {
		return 0
	}
	var ratios []float64
	for round, f := range b.found[c] {
		ratios = append(ratios, f.rate/of[round].rate)
	}
	slices.Sort(ratios)
	return ratios[len(ratios)/2]
}

func share(ratio float64) string {
	if ratio == 0 {
		return ""
	}
	return fmt.Sprintf("%.2f", ratio)
}

func p50p99(m measure) string {
	ms := func(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
	return fmt.Sprintf("%.1f / %.1f", ms(m.P50), ms(m.P99))
}

// thousands sets those of a number under a million apart.
func thousands(n int) string {
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%d,%03d", n/1000, n%1000)
}
