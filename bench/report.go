package main

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// table is text in columns, as Markdown has it. The first column is for words,
// the others are for numbers.
type table [][]string

func (t *table) add(cells ...string) { *t = append(*t, cells) }

func (t table) write(w io.Writer) {
	widths := make([]int, len(t[0]))
	for _, row := range t {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	for n, row := range t {
		for i, cell := range row {
			space := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if i == 0 {
				fmt.Fprintf(w, "| %s%s ", cell, space)
			} else {
				fmt.Fprintf(w, "| %s%s ", space, cell)
			}
		}
		fmt.Fprintln(w, "|")
		if n == 0 {
			for i, width := range widths {
				if i == 0 {
					fmt.Fprintf(w, "| %s ", strings.Repeat("-", width))
				} else {
					fmt.Fprintf(w, "| %s: ", strings.Repeat("-", max(0, width-1)))
				}
			}
			fmt.Fprintln(w, "|")
		}
	}
	fmt.Fprintln(w)
}

// write writes everything that was found out.
func (r *results) write(w io.Writer) {
	m := &r.Machine
	fmt.Fprintf(w, "%s, pqbridge %s, %s long.\n\n", m.Began.UTC().Format("2006-01-02 15:04 UTC"), m.Commit, m.Took.Round(time.Second))
	fmt.Fprintf(w, "%s.\n\n", m)
	r.writeDisk(w)
	if r.hasQueues() {
		r.writeQueues(w)
	} else {
		r.writeComparison(w)
	}
	r.writeSystems(w)
	if len(r.Notes) > 0 {
		fmt.Fprint(w, "Notes\n\n")
		for _, note := range r.Notes {
			fmt.Fprintf(w, "- %s\n", strings.ReplaceAll(strings.TrimSpace(note), "\n", "; "))
		}
		fmt.Fprintln(w)
	}
}

// writeComparison writes how systems compare.
func (r *results) writeComparison(w io.Writer) {
	r.writeRates(w, 64, allVerbs, "Operations")
	r.writeRates(w, 64, manyVerbs, "Items")
	r.writeParts(w)
	r.writeLatencies(w)
	r.writeDepths(w)
}

// clients are the numbers of clients that there are samples of, 64 first: that
// is the row to look at.
func (r *results) clients() []int {
	var all []int
	for i := range r.Samples {
		if s := &r.Samples[i]; s.System != probeName && s.Backlog == backlogUsual && !slices.Contains(all, s.Clients) {
			all = append(all, s.Clients)
		}
	}
	slices.SortFunc(all, func(a, b int) int { return b - a })
	slices.SortStableFunc(all, func(a, b int) int { return abs(a-64) - abs(b-64) })
	return all
}

func abs(n int) int { return max(n, -n) }

func (r *results) writeDisk(w io.Writer) {
	fmt.Fprintf(w, "The disk alone, p50 / p99: %s %s / %s, %s %s / %s.\n\n",
		probeFsync, micros(r.p50(probeName, probeFsync, 1)), micros(r.p99(probeName, probeFsync, 1)),
		probeFdatasync, micros(r.p50(probeName, probeFdatasync, 1)), micros(r.p99(probeName, probeFdatasync, 1)))
}

// measured are the systems that there are samples of.
func (r *results) measured() []*system {
	var found []*system
	for _, s := range systems {
		if slices.ContainsFunc(r.Samples, func(m sample) bool { return m.System == s.name }) {
			found = append(found, s)
		}
	}
	return found
}

func (r *results) writeRates(w io.Writer, clients int, verbs []string, what string) {
	if !slices.ContainsFunc(r.Samples, func(m sample) bool { return m.Clients == clients && slices.Contains(verbs, m.Verb) }) {
		return
	}
	fmt.Fprintf(w, "%s a second with %s, median of the rounds (and what part of echo that is)\n\n", what, plural(clients, "client"))
	echo := r.rate(nameEcho, verbPush, clients, backlogUsual)
	t := table{append([]string{"", "synced"}, verbs...)}
	for _, s := range r.measured() {
		cells := []string{s.name, "no"}
		if s.durable {
			cells[1] = "yes"
		}
		found := false
		for _, verb := range verbs {
			rate := r.rate(s.name, verb, clients, backlogUsual)
			found = found || rate > 0
			switch {
			case rate == 0:
				cells = append(cells, "")
			case echo == 0:
				cells = append(cells, number(rate))
			default:
				cells = append(cells, fmt.Sprintf("%s (%.2f)", number(rate), rate/echo))
			}
		}
		if found {
			t.add(cells...)
		}
	}
	t.write(w)
}

// writeParts is about pqd alone: no other system has an echo on its server.
func (r *results) writeParts(w io.Writer) {
	fmt.Fprint(w, "pqd's operations as parts of the echoes right before and behind each of them: median, least and most\n\n")
	t := table{append([]string{"", "echoes a second"}, allVerbs...)}
	for _, clients := range r.clients() {
		cells := []string{plural(clients, "client"), number(r.rate(namePQD, verbEcho, clients, backlogUsual))}
		for _, verb := range allVerbs {
			cell := ""
			if parts := r.parts(namePQD, verb, clients); len(parts) > 0 {
				cell = fmt.Sprintf("%.2f (%.2f–%.2f)", median(parts), parts[0], parts[len(parts)-1])
			}
			cells = append(cells, cell)
		}
		t.add(cells...)
	}
	t.write(w)
}

func (r *results) writeLatencies(w io.Writer) {
	if !slices.Contains(r.clients(), 1) {
		return
	}
	fmt.Fprint(w, "Microseconds from request to answer with 1 client, p50 / p99\n\n")
	t := table{append([]string{""}, allVerbs...)}
	for _, s := range r.measured() {
		cells := []string{s.name}
		for _, verb := range allVerbs {
			if p50 := r.p50(s.name, verb, 1); p50 > 0 {
				cells = append(cells, fmt.Sprintf("%s / %s", number(float64(p50.Microseconds())), number(float64(r.p99(s.name, verb, 1).Microseconds()))))
			} else {
				cells = append(cells, "")
			}
		}
		t.add(cells...)
	}
	t.write(w)
}

func (r *results) writeDepths(w io.Writer) {
	if len(r.Depths) == 0 {
		return
	}
	fmt.Fprintf(w, "A deep queue, %d clients: operations a second as parts of those with %s items in the same rounds; then what it takes\n\n", deepClients, backlogUsual)
	t := table{{"", "items", "push", "pop", "push, half popped", "pop, half popped", "memory", "disk", "disk, drained", "start", "filling", "draining"}}
	for _, d := range r.Depths {
		part := func(verb, at string) string {
			p := ratio(r.rate(d.System, verb, deepClients, at), r.rate(d.System, verb, deepClients, backlogBeside))
			if p == 0 {
				return ""
			}
			return fmt.Sprintf("%.2f", p)
		}
		t.add(d.System, number(float64(d.Items)),
			part(verbPush, backlogDeep), part(verbPop, backlogDeep), part(verbPush, backlogAfter), part(verbPop, backlogAfter),
			size(d.Memory), size(d.Disk), size(d.DiskAfter), d.Start.Round(10*time.Millisecond).String(),
			d.Fill.Round(time.Second).String(), d.Drain.Round(time.Second).String())
	}
	t.write(w)
}

func (r *results) writeSystems(w io.Writer) {
	fmt.Fprint(w, "How each was set up\n\n")
	for _, s := range r.measured() {
		version := r.Machine.Versions[s.pack]
		if s.pack == "" && strings.HasPrefix(s.name, nameJS) {
			version = r.Machine.Versions["nats-server"]
		}
		if version != "" {
			version = " " + version
		}
		how := s.how
		if s.promises != "" {
			how += ". " + capital(s.promises)
		}
		fmt.Fprintf(w, "- %s%s: %s.\n", s.name, version, how)
	}
	fmt.Fprintln(w)
}

func capital(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return strconv.Itoa(n) + " " + noun + "s"
}

// number is for people: three digits count, thousands are set apart.
func number(n float64) string {
	if n >= 1000 {
		scale := math.Pow(10, math.Floor(math.Log10(n))-2)
		n = math.Round(n/scale) * scale
	}
	text := strconv.Itoa(int(math.Round(n)))
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

func micros(d time.Duration) string { return strconv.FormatInt(d.Microseconds(), 10) + " µs" }

func size(bytes int64) string {
	switch {
	case bytes >= 1<<30:
		return fmt.Sprintf("%.1f GiB", float64(bytes)/(1<<30))
	default:
		return fmt.Sprintf("%.0f MiB", float64(bytes)/(1<<20))
	}
}
