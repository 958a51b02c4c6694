package manual

import (
	"strings"

	"github.com/pqbridge/pqbridge/internal/screen"
)

// gap is between the columns of a table.
const gap = 2

// table sets the cells below each other, wraps those that are too long, and where the columns do not fit
// beside each other writes each row as a list.
func (r *rendering) table(lines []string) {
	var rows [][]string
	right := make(map[int]bool)
	for i, line := range lines {
		cells := strings.Split(strings.Trim(strings.ReplaceAll(line, `\|`, "\x01"), "|"), "|")
		for n := range cells {
			cells[n] = strings.ReplaceAll(r.inline(strings.TrimSpace(cells[n])), "\x01", "|")
		}
		if i == 1 { // the line below the heads
			for n, cell := range cells {
				right[n] = strings.HasSuffix(cell, ":")
			}
			continue
		}
		rows = append(rows, cells)
	}
	widths, fit := r.widths(rows)
	if !fit {
		r.records(rows)
		return
	}
	sets, wrapped := make([][]string, len(rows)), false
	for i, row := range rows {
		sets[i] = beside(row, widths, right)
		wrapped = wrapped || len(sets[i]) > 1
	}
	rule := make([]string, len(widths))
	for n, width := range widths {
		rule[n] = strings.Repeat("-", width)
	}
	shown := append(sets[0], strings.Join(rule, strings.Repeat(" ", gap)))
	for i, set := range sets[1:] {
		if i > 0 && wrapped {
			shown = append(shown, "")
		}
		shown = append(shown, set...)
	}
	r.write(shown...)
}

// widths are those of the columns: what the cells need, or less of the widest ones, and not less than their
// longest words.
func (r *rendering) widths(rows [][]string) (widths []int, fit bool) {
	least := make([]int, len(rows[0]))
	widths = make([]int, len(rows[0]))
	for _, row := range rows {
		for n := range min(len(row), len(widths)) {
			widths[n] = max(widths[n], screen.Width(row[n]))
			for word := range strings.SplitSeq(row[n], " ") {
				least[n] = max(least[n], screen.Width(word))
			}
		}
	}
	for room := r.columns - gap*(len(widths)-1); ; {
		sum, widest := 0, -1
		for n, width := range widths {
			sum += width
			if width > least[n] && (widest < 0 || width > widths[widest]) {
				widest = n
			}
		}
		if sum <= room {
			return widths, true
		}
		if widest < 0 {
			return nil, false
		}
		widths[widest]--
	}
}

// beside sets the cells of a row beside each other.
func beside(row []string, widths []int, right map[int]bool) (lines []string) {
	columns, most := make([][]string, len(widths)), 0
	for n := range min(len(row), len(widths)) {
		columns[n] = wrap(row[n], widths[n], "", "")
		most = max(most, len(columns[n]))
	}
	for i := range most {
		var line strings.Builder
		for n, column := range columns {
			cell := ""
			if i < len(column) {
				cell = column[i]
			}
			if n > 0 {
				line.WriteString(strings.Repeat(" ", gap))
			}
			line.WriteString(screen.Pad(cell, widths[n], right[n]))
		}
		lines = append(lines, line.String())
	}
	return lines
}

// records writes each row as a list of what its columns say.
func (r *rendering) records(rows [][]string) {
	heads := rows[0]
	for _, row := range rows[1:] {
		first := row[0]
		if heads[0] != "" {
			first = heads[0] + ": " + first
		}
		shown := wrap(first, r.columns, "", "")
		for n := 1; n < min(len(row), len(heads)); n++ {
			if row[n] != "" {
				shown = append(shown, wrap(heads[n]+": "+row[n], r.columns, "  ", "    ")...)
			}
		}
		r.write(shown...)
	}
}
