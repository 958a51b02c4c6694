package figures

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/cmd/pq/internal/show"
	"github.com/pqbridge/pqbridge/internal/screen"
	"github.com/pqbridge/pqbridge/protocol"
)

// queueColumn is a column of a table of queues.
type queueColumn struct {
	GridColumn
	Text func(f *Queue) string
}

// queueColumns are all there are. The last ones to go in a narrow terminal are those with a
// low rank.
var queueColumns = []queueColumn{
	{GridColumn{Key: "name", Title: "QUEUE", Wide: true}, func(f *Queue) string { return f.Queue }},
	{GridColumn{Key: "ready", Title: "READY", Number: true}, func(f *Queue) string { return show.Thousands(f.Ready) }},
	{GridColumn{Key: "leased", Title: "LEASED", Number: true, Rank: 2}, func(f *Queue) string { return show.Thousands(f.Leased) }},
	{GridColumn{Key: "delayed", Title: "DELAYED", Number: true, Rank: 3}, func(f *Queue) string { return show.Thousands(f.Delayed) }},
	{GridColumn{Key: "dead", Title: "DEAD", Number: true, Rank: 1}, func(f *Queue) string { return DeadLettersOf(f.Dead) }},
	{GridColumn{Key: "size", Title: "SIZE", Number: true, Rank: 5}, func(f *Queue) string { return show.Size(f.Bytes) }},
	{GridColumn{Key: "oldest", Title: "OLDEST", Number: true, Rank: 2}, (*Queue).Oldest},
	{GridColumn{Key: "waiting", Title: "WAITING", Number: true, Rank: 5}, func(f *Queue) string { return show.Thousands(int64(f.Waiting)) }},
	{GridColumn{Key: "push", Title: "PUSH/S", Number: true, Rank: 4}, func(f *Queue) string { return show.Rate(f.Rates.Push) }},
	{GridColumn{Key: "pop", Title: "POP/S", Number: true, Rank: 4}, func(f *Queue) string { return show.Rate(f.Rates.Pop) }},
	{GridColumn{Key: "settle", Title: "SETTLE/S", Number: true, Rank: 6}, func(f *Queue) string { return show.Rate(f.Rates.Settle) }},
	{GridColumn{Key: "state", Rank: 1}, func(f *Queue) string { return State(f.Info) }},
}

// QueueColumnsBut are all columns but some.
func QueueColumnsBut(keys ...string) (some []queueColumn) {
	for _, c := range queueColumns {
		if !slices.Contains(keys, c.Key) {
			some = append(some, c)
		}
	}
	return some
}

// QueueLines are the lines of a table of queues.
func QueueLines(all []*Queue, shown []queueColumn) []string {
	rows := make([][]string, 1+len(all))
	for _, c := range shown {
		rows[0] = append(rows[0], c.Title)
		for i, f := range all {
			rows[1+i] = append(rows[1+i], c.Text(f))
		}
	}
	return show.Columns(rows)
}

// Oldest writes the age of the oldest ready item, with + if there may be an older one.
func (f *Queue) Oldest() string {
	age := OldestOf(f.Ready, f.age, false)
	if f.Ready > 0 && f.OldestAtLeast {
		age += "+"
	}
	return age
}

// Word is a cause for people.
func Word(c client.Cause) string { return strings.ReplaceAll(string(c), "_", " ") }

// State are the words for what keeps a queue's items, and its pushes; "" where that is nothing that somebody has to end. A pause
// is named though the queue is empty. Behind them stands a Fact.
func State(i *client.Info) string {
	e := &i.Explain
	var words []string
	switch {
	case e.Cause == client.CauseFailing:
		words = append(words, fmt.Sprintf("%s %d", Word(e.Cause), e.Failing))
	case i.Stands():
		words = append(words, Word(e.Cause))
	case i.Paused:
		words = append(words, "paused")
	}
	if refuses := client.Cause(e.Refuses); refuses != "" && refuses != e.Cause {
		words = append(words, Word(refuses))
	}
	if fact := Fact(i); fact != "" {
		words = append(words, fact)
	}
	return strings.Join(words, ", ")
}

// Fact is what is worth a word, and nothing that somebody has to end: how many of the delayed items have failed, for others succeed;
// who holds items, for workers may have long jobs; and results of Celery.
func Fact(i *client.Info) string {
	switch e := &i.Explain; {
	case i.Replies():
		return "Celery results"
	case e.Cause == protocol.CauseDelayed && e.Failing > 0:
		return fmt.Sprintf("%d failed", e.Failing)
	}
	return Held(i)
}

// Held says for how long the oldest lease lasts, and who has it, where workers take none of the items that are ready; "" elsewhere.
func Held(i *client.Info) string {
	held := i.HeldFor()
	switch {
	case held == 0:
		return ""
	case i.Explain.Holder == "":
		return "held " + show.Minutes(held)
	}
	return "held " + show.Minutes(held) + ", " + screen.Visible(i.Explain.Holder)
}

// GridColumn is a column of a grid.
type GridColumn struct {
	Key    string
	Title  string
	Number bool // aligned to the right
	Wide   bool // is cut where the others need the space
	Rank   int  // columns of high rank go first in a narrow terminal; 0: never
}

// grid is a table that fits into a terminal.
type grid struct {
	width   int
	columns []GridColumn
	rows    [][]screen.Span
}

func NewGrid(width int, columns []GridColumn) *grid { return &grid{width: width, columns: columns} }

// Add adds a row. What cells hold is made visible, so that its width is known.
func (g *grid) Add(cells []screen.Span) {
	for i := range cells {
		cells[i].Text = screen.Visible(cells[i].Text)
	}
	g.rows = append(g.rows, cells)
}

// Widths of columns.
const (
	gap      = 2
	minWide  = 12
	minTitle = 1
)

// widths are the widths of the columns, -1 for those that have no place.
func (g *grid) widths() []int {
	widths := make([]int, len(g.columns))
	for c, column := range g.columns {
		widths[c] = max(minTitle, screen.Width(column.Title))
		for _, row := range g.rows {
			widths[c] = max(widths[c], screen.Width(row[c].Text))
		}
	}
	for {
		total, wide, last := 0, -1, -1
		for c, column := range g.columns {
			if widths[c] < 0 {
				continue
			}
			total += widths[c] + gap
			if column.Wide {
				wide = c
			}
			if column.Rank > 0 && (last < 0 || column.Rank >= g.columns[last].Rank) {
				last = c
			}
		}
		over := total - gap - g.width
		if wide >= 0 && over > 0 {
			least := minWide
			if last < 0 {
				least = 1
			}
			give := max(0, min(over, widths[wide]-least))
			widths[wide] -= give
			over -= give
		}
		if over <= 0 || last < 0 {
			return widths
		}
		for c, column := range g.columns { // as it was, for one column less
			if column.Wide {
				widths[c] = max(minTitle, screen.Width(column.Title))
				for _, row := range g.rows {
					widths[c] = max(widths[c], screen.Width(row[c].Text))
				}
			}
		}
		widths[last] = -1
	}
}

// Lines are the head and the rows, the one at the cursor marked.
func (g *grid) Lines(cursor int) []screen.Line {
	widths := g.widths()
	head := make([]screen.Span, len(g.columns))
	for c, column := range g.columns {
		head[c] = screen.Span{Text: column.Title, Style: screen.Bold}
	}
	lines := []screen.Line{g.line(widths, head, 0)}
	for r, row := range g.rows {
		var style screen.Style
		if r == cursor {
			style = screen.Reverse
		}
		lines = append(lines, g.line(widths, row, style))
	}
	return lines
}

// line puts the cells of a row beside each other.
func (g *grid) line(widths []int, cells []screen.Span, style screen.Style) screen.Line {
	var line screen.Line
	at := 0
	for c, cell := range cells {
		if widths[c] < 0 {
			continue
		}
		space := gap
		if at == 0 {
			space = 0
		}
		text := screen.Pad(screen.Cut(cell.Text, widths[c]), widths[c], g.columns[c].Number)
		line = append(line, screen.Span{Text: screen.Pad("", space, false), Style: style}, screen.Span{Text: text, Style: cell.Style | style})
		at += space + widths[c]
	}
	if style != 0 {
		line = append(line, screen.Span{Text: screen.Pad("", g.width-at, false), Style: style})
	}
	return line
}
