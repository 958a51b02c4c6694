package top

import (
	"fmt"
	"strings"
	"time"

	"github.com/pqbridge/pqbridge/cmd/pq/internal/figures"
	"github.com/pqbridge/pqbridge/cmd/pq/internal/show"
	"github.com/pqbridge/pqbridge/internal/screen"
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
		text := screen.Visible(show.Disconnected(m.now, since, m.good, why))
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
	t := figures.NewGrid(m.columns, gridOfTop(o.orderNow(), o.reversed && o.whole()))
	for _, name := range o.visible() {
		t.Add(m.cellsOf(name))
	}
	lines := append([]screen.Line{m.head(), m.summary(), m.state()}, t.Lines(o.cursor-o.top)...)
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
	count := show.Many(int64(len(o.names)), "queue") + what
	switch {
	case !o.answered && o.begin == "" && o.after == "":
		return screen.Text("asking …")
	case !o.whole():
		return screen.Text(fmt.Sprintf("more than %s queues%s, by name: page %d, from %s", show.Thousands(mostNames), what, len(o.before)+1, firstOf(o.names)))
	case o.order == "name" || !m.since().IsZero():
		return screen.Text(count + " by " + o.order)
	}
	var known []*figures.Queue
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

// topColumns are those of the list.
var topColumns = figures.QueueColumnsBut("size")

// gridOfTop are the columns of the list as it is sorted.
func gridOfTop(order string, reversed bool) []figures.GridColumn {
	all := make([]figures.GridColumn, len(topColumns))
	for i, c := range topColumns {
		if all[i] = c.GridColumn; c.Key == order {
			all[i].Title += map[bool]string{false: "▼", true: "▲"}[reversed != (order == "name")]
			all[i].Rank = 0
		}
	}
	return all
}

// cellsOf are the cells of a queue.
func (m *topModel) cellsOf(name string) []screen.Span {
	f := m.list.figures[name]
	cells := make([]screen.Span, len(topColumns))
	for i, c := range topColumns {
		switch {
		case c.Key == "name":
			cells[i].Text = name
		case f != nil:
			cells[i].Text = m.number(f.At, c.Text(f))
		case c.Key != "state":
			cells[i].Text = "…"
		}
		switch {
		case c.Key == "state" && (f == nil || cells[i].Text == "" || cells[i].Text != figures.Fact(f.Info)):
			cells[i].Style = screen.Yellow
		case c.Key == "dead" && f != nil && f.Dead > 0:
			cells[i].Style = screen.Red
		}
	}
	if f == nil {
		return cells
	}
	if !m.live(f.At) {
		for i := range cells {
			cells[i].Style = screen.Faint
		}
	}
	return cells
}
