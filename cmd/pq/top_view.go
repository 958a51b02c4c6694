package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/pqbridge/pqbridge/cmd/pq/screen"
)

// How many lines each view has around its rows.
const (
	listFrame   = 5
	detailFrame = 9
	itemFrame   = 5
)

// view is the screen.
func (m *topModel) view() []screen.Line {
	var lines []screen.Line
	switch {
	case m.help:
		lines = m.viewHelp()
	case m.item != nil:
		lines = m.viewItem()
	case m.detail != nil:
		lines = m.viewQueue()
	default:
		lines = m.viewList()
	}
	for len(lines) < m.lines-1 {
		lines = append(lines, nil)
	}
	return append(lines[:max(0, m.lines-1)], m.foot())
}

// head is the first line: where the numbers come from, and the time.
func (m *topModel) head() screen.Line {
	left := "pq top  " + m.server + "  prefix " + m.prefix
	clock := m.now.Format(time.TimeOnly)
	left = screen.Cut(screen.Visible(left), max(0, m.columns-len(clock)-2))
	return screen.Line{{Text: screen.Pad(left, m.columns-len(clock), false), Style: screen.Bold}, {Text: clock}}
}

// state is the second line: that nobody answers, a note, or nothing.
func (m *topModel) state() screen.Line {
	since := m.since()
	switch {
	case !since.IsZero():
		why := m.why
		if why == "" {
			why = "no answer"
		}
		text := screen.Visible(disconnected(m.now, since, m.good, why))
		return screen.Line{{Text: screen.Pad(text, m.columns, false), Style: screen.Reverse | screen.Red}}
	case m.now.Sub(m.noted) < noteFor:
		return m.note
	}
	return nil
}

// foot is the last line: a question, or what keys do.
func (m *topModel) foot() screen.Line {
	switch {
	case m.ask != nil:
		return screen.Line{{Text: m.ask.text + " ", Style: screen.Bold | screen.Yellow}, {Text: "y: yes, any other key: no"}}
	case m.help:
		return screen.Text("any key: back")
	case m.typing:
		return screen.Line{{Text: "/", Style: screen.Bold}, {Text: m.list.begin}, {Text: " ", Style: screen.Reverse}, {Text: "  enter: keep, esc: all"}}
	case m.item != nil:
		return keysLine("↑↓", "scroll", "esc", "back", "?", "help", "q", "quit")
	case m.detail != nil && m.detail.tab == dead:
		return keysLine("esc", "back", "tab", "next list", "enter", "item", "r", "requeue it", "R", "requeue all", "p", "pause", "?", "help", "q", "quit")
	case m.detail != nil:
		return keysLine("esc", "back", "tab", "next list", "enter", "item", "p", "pause", "r", "requeue dead", "?", "help", "q", "quit")
	}
	return keysLine("enter", "open", "/", "filter", "s", "sort", "p", "pause", "r", "requeue dead", "?", "help", "q", "quit")
}

func keysLine(pairs ...string) (line screen.Line) {
	for i := 0; i+1 < len(pairs); i += 2 {
		line = append(line, screen.Span{Text: pairs[i], Style: screen.Bold}, screen.Span{Text: " " + pairs[i+1] + "  "})
	}
	return line
}

func (m *topModel) viewHelp() []screen.Line {
	lines := []screen.Line{m.head(), nil}
	for _, key := range keyHelp {
		lines = append(lines, screen.Line{{Text: "  " + screen.Pad(key[0], 12, false), Style: screen.Bold}, {Text: key[1]}})
	}
	for text := range strings.SplitSeq(helpNumbers, "\n") {
		lines = append(lines, screen.Text("  "+text))
	}
	return lines
}

const helpNumbers = `
OLDEST is the age of the oldest ready item, with + if there may be an older one. WAITING
pops and the rates, averaged over a minute, are those of the bridge that answers. DEAD
are the items of the queue for dead letters. ~ stands before numbers that are old, … for
those that are not known yet.`

// viewList is the list of queues.
func (m *topModel) viewList() []screen.Line {
	o := &m.list
	t := newGrid(m.columns, columnsOfTop(o.orderNow(), o.reversed && o.whole()))
	for _, name := range o.visible() {
		t.add(m.cellsOf(name))
	}
	lines := append([]screen.Line{m.head(), m.summary(), m.state()}, t.lines(o.cursor-o.top)...)
	if len(o.shown) == 0 && o.answered {
		lines = append(lines, screen.Text("no queues"))
	}
	return lines
}

// summary says what the list shows.
func (m *topModel) summary() screen.Line {
	o := &m.list
	what := ""
	if o.begin != "" {
		what = " beginning with " + o.begin
	}
	count := many(int64(len(o.names)), "queue") + what
	switch {
	case !o.answered && o.begin == "" && o.after == "":
		return screen.Text("asking …")
	case !o.whole():
		return screen.Text(fmt.Sprintf("more than %s queues%s, by name: page %d, from %s", thousands(mostNames), what, len(o.before)+1, firstOf(o.names)))
	case o.order == "name" || !m.since().IsZero():
		return screen.Text(count + " by " + o.order)
	}
	var known []*figures
	for _, name := range o.names {
		if f := o.figures[name]; f != nil {
			known = append(known, f)
		}
	}
	return screen.Text(count + " by " + o.order + "  " + sums(known))
}

func firstOf(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return names[0]
}

// columnsOfTop are the columns of the list. The last ones to go in a narrow terminal are
// those with a low rank.
func columnsOfTop(order string, reversed bool) []gridColumn {
	all := []gridColumn{
		{key: "name", title: "QUEUE", wide: true}, {key: "ready", title: "READY", number: true}, {key: "leased", title: "LEASED", number: true, rank: 2},
		{key: "delayed", title: "DELAYED", number: true, rank: 3}, {key: "dead", title: "DEAD", number: true, rank: 1},
		{key: "oldest", title: "OLDEST", number: true, rank: 2}, {key: "waiting", title: "WAITING", number: true, rank: 5},
		{key: "push", title: "PUSH/S", number: true, rank: 4}, {key: "pop", title: "POP/S", number: true, rank: 4},
		{key: "settle", title: "SETTLE/S", number: true, rank: 6}, {title: "", rank: 1},
	}
	for i := range all {
		if all[i].key == order {
			all[i].title += map[bool]string{false: "▼", true: "▲"}[reversed != (order == "name")]
			all[i].rank = 0
		}
	}
	return all
}

// oldest writes the age of the oldest ready item, with + if there may be an older one.
func (f *figures) oldest() string {
	switch age := span(seconds(f.age).Round(time.Second)); {
	case f.Ready == 0:
		return "-"
	case f.OldestAtLeast:
		return age + "+"
	default:
		return age
	}
}

// cellsOf are the cells of a queue.
func (m *topModel) cellsOf(name string) []screen.Span {
	f := m.list.figures[name]
	if f == nil {
		cells := []screen.Span{{Text: name}}
		for range 9 {
			cells = append(cells, screen.Span{Text: "…"})
		}
		return append(cells, screen.Span{})
	}
	n := func(text string) screen.Span { return screen.Span{Text: m.number(f.at, text)} }
	deadCell, state := n(deadLettersOf(f.dead)), n(paused(f.Info))
	if f.dead > 0 {
		deadCell.Style = screen.Red
	}
	state.Style = screen.Yellow
	cells := []screen.Span{
		{Text: name}, n(thousands(f.Ready)), n(thousands(f.Leased)), n(thousands(f.Delayed)), deadCell,
		n(f.oldest()), n(thousands(int64(f.Waiting))),
		n(rate(f.Rates.Push)), n(rate(f.Rates.Pop)), n(rate(f.Rates.Settle)), state,
	}
	if !m.live(f.at) {
		for i := range cells {
			cells[i].Style = screen.Faint
		}
	}
	return cells
}
