package figures

import (
	"github.com/pqbridge/pqbridge/internal/screen"
)

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
