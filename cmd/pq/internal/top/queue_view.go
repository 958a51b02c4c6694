package top

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/cmd/pq/internal/deadletters"
	"github.com/pqbridge/pqbridge/cmd/pq/internal/figures"
	"github.com/pqbridge/pqbridge/cmd/pq/internal/show"
	"github.com/pqbridge/pqbridge/internal/screen"
)

// viewQueue is a queue with its items.
func (m *topModel) viewQueue() []screen.Line {
	d := m.detail
	lines := append([]screen.Line{m.head(), m.queueTitle()}, m.queueNumbers()...)
	lines = append(lines, m.state(), m.tabsLine())
	switch {
	case d.gone:
		return append(lines, screen.Text("there is no such queue"))
	case !d.shows():
		return append(lines, screen.Text("asking …"))
	case d.tab == dead && d.figure.Dead == figures.None:
		return append(lines, screen.Text("this queue is for dead letters: they are on the tab of ready items"))
	case len(d.items) == 0 && d.behind == "":
		return append(lines, screen.Text(map[client.State]string{
			client.Ready: "no ready items", client.Leased: "no leased items", client.Delayed: "no delayed items", dead: "no dead letters",
		}[d.tab]))
	}
	g := figures.NewGrid(m.columns, itemColumns(d.tab))
	for i := range d.items {
		g.Add(m.itemCells(&d.items[i]))
	}
	return append(lines, g.Lines(d.cursor)...)
}

func (m *topModel) queueTitle() screen.Line {
	title := screen.Line{{Text: m.detail.queue, Style: screen.Bold}}
	if f := m.detail.figure; f != nil && f.Paused {
		title = append(title, screen.Span{Text: "  " + m.number(f.At, "paused"), Style: screen.Yellow})
	}
	return title
}

// queueNumbers are three lines about the queue.
func (m *topModel) queueNumbers() []screen.Line {
	f := m.detail.figure
	if f == nil {
		return []screen.Line{nil, nil, nil}
	}
	n := func(text string) string { return m.number(f.At, text) }
	items := fmt.Sprintf("next item %s   oldest %s   size %s   waiting pops %s",
		n(figures.Oldest(f.Info)), n(f.Oldest()), n(show.Size(f.Bytes)), n(show.Thousands(int64(f.Waiting))))
	rates := fmt.Sprintf("pushes/s %s   pops/s %s   settlements/s %s", n(show.Rate(f.Rates.Push)), n(show.Rate(f.Rates.Pop)), n(show.Rate(f.Rates.Settle)))
	c := f.Config
	rules := fmt.Sprintf("lease %s   max_deliveries %d   max_length %s", time.Duration(c.Lease), c.MaxDeliveries, show.Thousands(c.MaxLength))
	if c.MaxBytes > 0 {
		rules += "   max_bytes " + show.Size(c.MaxBytes)
	}
	if c.Backoff != "" {
		rules += "   backoff " + string(c.Backoff)
	}
	if in := figures.Holder(f.Info); in != "" {
		rules += "   dead letters in " + in
	}
	return []screen.Line{screen.Text(items), screen.Text(rates), {{Text: rules, Style: screen.Faint}}}
}

// tabsLine shows the states with their numbers, the one that is shown marked.
func (m *topModel) tabsLine() screen.Line {
	var line screen.Line
	for _, tab := range tabs {
		text := string(tab)
		if f := m.detail.figure; f != nil {
			n := map[client.State]int64{client.Ready: f.Ready, client.Leased: f.Leased, client.Delayed: f.Delayed, dead: f.Dead}[tab]
			text += " " + m.number(f.At, figures.DeadLettersOf(n))
		}
		var style screen.Style
		if tab == m.detail.tab {
			style, text = screen.Reverse, "["+text+"]"
		}
		line = append(line, screen.Span{Text: text, Style: style}, screen.Span{Text: "   "})
	}
	if m.detail.behind != "" || m.detail.more {
		line = append(line, screen.Span{Text: fmt.Sprintf("page %d", len(m.detail.before)+1), Style: screen.Faint})
	}
	return line
}

// itemColumns are the columns of a tab.
func itemColumns(tab client.State) []figures.GridColumn {
	columns := []figures.GridColumn{{Title: "ID", Rank: 1}, {Title: "PRIORITY", Number: true}, {Title: "AGE", Number: true}, {Title: "SIZE", Number: true, Rank: 2}}
	switch tab {
	case dead:
		columns[2].Title = "DIED"
		return append(columns, figures.GridColumn{Title: "DELIVERIES", Number: true, Rank: 3}, figures.GridColumn{Title: "FROM", Rank: 4}, figures.GridColumn{Title: "CAUSE", Wide: true})
	case client.Ready:
		return append(columns, figures.GridColumn{Title: "DELIVERIES", Number: true, Rank: 3}, figures.GridColumn{Title: "KEY", Wide: true})
	}
	columns = append(columns, figures.GridColumn{Title: "DELIVERIES", Number: true, Rank: 3},
		figures.GridColumn{Title: map[client.State]string{client.Leased: "LEASE ENDS", client.Delayed: "DUE"}[tab]})
	if tab == client.Leased {
		columns = append(columns, figures.GridColumn{Title: "HOLDER", Rank: 4})
	}
	return append(columns, figures.GridColumn{Title: "KEY", Wide: true})
}

// distance is how far a time is from now.
func (m *topModel) distance(t time.Time) string {
	if d := t.Sub(m.now).Round(time.Second); d > 0 {
		return "in " + show.Span(d)
	}
	return show.Span(m.now.Sub(t).Round(time.Second)) + " ago"
}

// itemCells are the cells of an item.
func (m *topModel) itemCells(i *client.Listed) []screen.Span {
	var style screen.Style
	if !m.live(m.detail.figure.At) {
		style = screen.Faint
	}
	age := show.Span(max(0, m.now.Sub(i.Pushed)).Round(time.Second))
	texts := []string{i.ID, fmt.Sprint(i.Priority), age, show.Size(i.Size)}
	switch m.detail.tab {
	case dead:
		deliveries, from, cause := "-", "-", "-"
		texts[2] = "-"
		if d := i.Dead; d != nil {
			texts[2], deliveries, from, cause = deadletters.Died(d.At, m.now), fmt.Sprint(d.Deliveries), d.Origin, cmp.Or(i.Cause, d.Reason)
		}
		texts = append(texts, deliveries, from, cause)
	case client.Ready:
		texts = append(texts, fmt.Sprint(i.Deliveries), i.Key)
	case client.Leased:
		texts = append(texts, fmt.Sprint(i.Deliveries), m.distance(i.Due), cmp.Or(i.Holder, "-"), i.Key)
	default:
		texts = append(texts, fmt.Sprint(i.Deliveries), m.distance(i.Due), i.Key)
	}
	cells := make([]screen.Span, len(texts))
	for c, text := range texts {
		cells[c] = screen.Span{Text: text, Style: style}
	}
	return cells
}

// maxShown is how much of a payload is shown.
const maxShown = 64 << 10

// show takes the item.
func (v *itemView) show(i *client.Item, at time.Time) {
	v.found, v.at, v.width = true, at, 0
	if i == nil {
		v.text = []string{"the item is gone"}
		return
	}
	v.text = append(strings.Split(strings.TrimRight(show.Shown(i).Describe(), "\n"), "\n"), "")
	payload := i.Payload
	if len(payload) > maxShown {
		v.text = append(v.text, fmt.Sprintf("the first %s of %s:", show.Size(maxShown), show.Size(int64(len(payload)))), "")
		payload = payload[:maxShown]
	}
	for line := range strings.SplitSeq(strings.TrimRight(string(payload), "\n"), "\n") {
		v.text = append(v.text, strings.ReplaceAll(strings.TrimSuffix(line, "\r"), "\t", "    "))
	}
}

// wrap divides lines that are longer than the screen is wide.
func (v *itemView) wrap(columns int) {
	if v.width == columns || columns == 0 {
		return
	}
	v.lines, v.width = nil, columns
	for _, text := range v.text {
		v.lines = append(v.lines, screen.Wrap(screen.Visible(text), columns)...)
	}
}

// viewItem is an item with its payload.
func (m *topModel) viewItem() []screen.Line {
	v := m.item
	lines := []screen.Line{m.head()}
	if !v.found {
		return append(lines, m.state(), nil, screen.Text("asking …"))
	}
	title := "as of " + v.at.Format(time.TimeOnly)
	if len(v.lines) > m.itemHeight() {
		title += fmt.Sprintf("   lines %d to %d of %d", v.top+1, min(len(v.lines), v.top+m.itemHeight()), len(v.lines))
	}
	lines = append(lines, screen.Line{{Text: title, Style: screen.Faint}}, m.state(), nil)
	for _, text := range v.lines[v.top:min(len(v.lines), v.top+m.itemHeight())] {
		lines = append(lines, screen.Text(text))
	}
	return lines
}
