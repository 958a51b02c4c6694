package main

import (
	"fmt"
	"strings"
)

// The lines of a page between which bench writes: the tables of each kind of
// comparison, which the next run replaces, and the runs, to which it adds.
const (
	pageBegin = "<!-- bench: %s -->\n"
	pageEnd   = "<!-- bench: end -->\n"
	pageRuns  = "runs"
)

// enter puts a report in the place of the last one of its kind, and its figures of
// pqd beside an echo on the same server into the table of runs.
func (r *results) enter(page, kind, report string) (string, error) {
	page, err := replace(page, kind, func(string) string { return "\n" + report })
	if err != nil || kind != "systems" {
		return page, err
	}
	return replace(page, pageRuns, func(rows string) string { return strings.TrimSuffix(rows, "\n") + r.row() + "\n" })
}

// replace changes what a page has between the lines of a kind.
func replace(page, kind string, change func(string) string) (string, error) {
	begin := fmt.Sprintf(pageBegin, kind)
	before, rest, begins := strings.Cut(page, begin)
	old, after, ends := strings.Cut(rest, pageEnd)
	if !begins || !ends {
		return "", fmt.Errorf("expected the lines %q and %q", begin, pageEnd)
	}
	return before + begin + change(old) + pageEnd + after, nil
}

// row is this run in the table of runs.
func (r *results) row() string {
	m := &r.Machine
	cells := []string{m.Began.UTC().Format("2006-01-02"), m.Commit, number(r.rate(namePQD, verbEcho, 64, backlogUsual)), micros(r.p50(probeName, probeFsync, 1))}
	for _, clients := range []int{64, 256} {
		for _, verb := range []string{verbPush, verbPop, verbLease} {
			cells = append(cells, fmt.Sprintf("%.2f", median(r.parts(namePQD, verb, clients))))
		}
	}
	return "| " + strings.Join(cells, " | ") + " |\n"
}
