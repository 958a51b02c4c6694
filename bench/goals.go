package main

import (
	"fmt"
	"time"
)

// goal is a ratio, or a bound, that pqd should keep, and how it does.
type goal struct {
	what  string
	want  string
	found string
	kept  bool
	known bool
}

// race is a goal that compares two rates at so many clients.
type race struct {
	clients int
	system  string
	verb    string
	against string
	other   string // the other's verb; "": the same
	factor  float64
}

var races = []race{
	{256, namePQD, verbPush, nameEcho, "", 0.7},
	{256, namePQD, verbPop, nameEcho, "", 0.8},
	{256, namePQD, verbLease, nameEcho, "", 0.35},
	{64, namePQD, verbPush, nameEcho, "", 0.45},
	{64, namePQD, verbPop, nameEcho, "", 0.7},

	{64, namePQD, verbPush, nameRedisAlways, "", 1.1},
	{64, namePQD, verbPop, nameRedisAlways, "", 1.1},
	{64, namePQD, verbPush, nameBeanstalkdAlways, "", 8},
	{64, namePQD, verbPop, nameBeanstalkdAlways, "", 8},
	{64, namePQD, verbPush, nameJSAlways, "", 8},
	// A work queue's own pop is acknowledged behind the client's back. The one
	// whose end is on disk when it is answered for is this:
	{64, namePQD, verbPop, nameJSAlways, verbLease, 8},
	{64, namePQD, verbPush, namePostgres, "", 3},
	{64, namePQD, verbPop, namePostgres, "", 8},
	{64, namePQD, verbPush, nameRabbit, "", 5},
	{64, namePQD, verbPop, nameRabbit, "", 5},

	{64, namePQD, verbLease, nameJS, "", 1.2},
	{64, namePQD, verbLeave, nameJS, "", 1.2},
	{64, namePQD, verbLease, nameJSFetch, "", 1.2},
	{64, namePQD, verbLeave, nameJSFetch, "", 1.2},
	{64, namePQD, verbLease, nameBeanstalkd, "", 1.2},

	{256, nameThreePQD, verbPush, namePQD, "", 0.5},
	{256, nameThreePQD, verbPop, namePQD, "", 0.5},
	{256, nameThreePQD, verbLease, namePQD, "", 0.5},
	{256, nameThreePQD, verbPush, nameThreeJS, "", 5},
	{256, nameThreePQD, verbPop, nameThreeJS, verbLease, 5},
	{256, nameThreePQD, verbLease, nameThreeJS, "", 5},

	{64, namePQDFast, verbPush, nameJS, "", 0.6},
	{64, namePQDFast, verbPop, nameJS, "", 1},
	{64, namePQDFast, verbLease, nameJS, "", 1},
	{64, namePQDFast, verbLeave, nameJS, "", 1},
	{64, namePQDFast, verbPush, nameRedis, "", 1},
	{64, namePQDFast, verbPop, nameRedis, "", 1},
	{64, namePQDFast, verbLease, nameRedis, "", 1},
	{64, namePQDFast, verbPush, nameBeanstalkd, "", 1},
	{64, namePQDFast, verbPop, nameBeanstalkd, "", 1},
	{64, namePQDFast, verbLease, nameBeanstalkd, "", 1},
}

// goals says how pqd does by each.
func (r *results) goals() []goal {
	var all []goal
	for _, c := range races {
		other := c.other
		if other == "" {
			other = c.verb
		}
		what := fmt.Sprintf("%s: %s, %d clients, against %s", c.system, c.verb, c.clients, c.against)
		if other != c.verb {
			what += "'s " + other
		}
		if c.against == nameEcho {
			all = append(all, atLeast(what+", right before and behind", c.factor, median(r.parts(c.system, c.verb, c.clients))))
			continue
		}
		found := ratio(r.rate(c.system, c.verb, c.clients, backlogUsual), r.rate(c.against, other, c.clients, backlogUsual))
		all = append(all, atLeast(what, c.factor, found))
	}
	all = append(all, r.latencyGoal(), r.allocationGoal(verbPush), r.allocationGoal(verbPop))
	all = append(all, r.manyGoals()...)
	all = append(all, r.queueGoals()...)
	for _, d := range r.Depths {
		if d.System == namePQD {
			all = append(all, r.depthGoals(&d)...)
		}
	}
	return all
}

func atLeast(what string, want, found float64) goal {
	return goal{what, fmt.Sprintf("≥ %.2f", want), fmt.Sprintf("%.2f", found), found >= want, found > 0}
}

// latencyGoal: a push costs what an echo costs, one fsync, and a little.
func (r *results) latencyGoal() goal {
	push, echo := r.p50(namePQD, verbPush, 1), r.p50(nameEcho, verbPush, 1)
	fsync, fdatasync := r.p50(probeName, probeFsync, 1), r.p50(probeName, probeFdatasync, 1)
	const more = 100 * time.Microsecond
	limit := echo + fsync + more
	return goal{
		what: fmt.Sprintf("pqd: p50 of a push, 1 client: echo %s + fsync %s + %s (with fdatasync %s it were %s)",
			micros(echo), micros(fsync), micros(more), micros(fdatasync), micros(echo+fdatasync+more)),
		want: "≤ " + micros(limit), found: micros(push), kept: push <= limit, known: push > 0 && echo > 0,
	}
}

func (r *results) allocationGoal(verb string) goal {
	const most = 12
	n, known := r.Allocations[verb]
	return goal{
		what: fmt.Sprintf("pqd: heap allocations a %s beyond the echo's %.0f, core and store included", verb, r.Allocations[nameEcho]),
		want: fmt.Sprintf("≤ %d", most), found: fmt.Sprintf("%.1f", n), kept: n <= most, known: known,
	}
}

func (r *results) depthGoals(d *depth) []goal {
	items := number(float64(d.Items))
	var all []goal
	for _, verb := range []string{verbPush, verbPop} {
		beside := r.rate(d.System, verb, deepClients, backlogBeside)
		all = append(all,
			atLeast(fmt.Sprintf("pqd: %s with %s items, against 10,000", verb, items), 0.8, ratio(r.rate(d.System, verb, deepClients, backlogDeep), beside)),
			atLeast(fmt.Sprintf("pqd: %s after half of them were popped, against 10,000", verb), 0.9, ratio(r.rate(d.System, verb, deepClients, backlogAfter), beside)))
	}
	const memory, start = 512 << 20, 2 * time.Second
	return append(all,
		goal{fmt.Sprintf("pqd: resident memory with %s items", items), "≤ " + size(memory), size(d.Memory), d.Memory <= memory, d.Memory > 0},
		goal{fmt.Sprintf("pqd: start with %s items", items), "≤ " + start.String(), d.Start.Round(10 * time.Millisecond).String(), d.Start <= start, d.Start > 0},
		goal{"pqd: disk space after a drain", "≤ 10% of " + size(d.Disk), size(d.DiskAfter), d.DiskAfter <= d.Disk/10, d.Disk > 0},
	)
}
