package manual

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/pqbridge/pqbridge/internal/screen"
)

var (
	item      = regexp.MustCompile(`^([-*]|\d+\.) (.*)$`)
	footnote  = regexp.MustCompile(`^\[\^(\w+)\]: (.*)$`)
	summary   = regexp.MustCompile(`<summary>(.*)</summary>`)
	alternate = regexp.MustCompile(` alt="([^"]*)"`)
	heading   = regexp.MustCompile(`^(#+) (.*)$`)
)

// fence begins and ends a block of code.
const fence = "```"

// rendering is a page on its way to the terminal.
type rendering struct {
	file    string // of the page
	columns int
	lines   []string          // what is left to read
	heads   map[string]string // titles by the anchors that links have
	out     strings.Builder
	tight   bool // the last block was an item of a list
}

// render returns a page as a terminal shows it.
func render(file, page string, columns int) string {
	r := &rendering{file: file, columns: columns, lines: strings.Split(page, "\n"), heads: make(map[string]string)}
	for _, line := range r.lines {
		if match := heading.FindStringSubmatch(line); match != nil {
			r.heads[anchor(match[2])] = r.inline(match[2])
		}
	}
	for len(r.lines) > 0 {
		r.block()
	}
	return r.out.String()
}

// dropped is what no anchor has.
var dropped = regexp.MustCompile(`[^\p{L}\p{N}_ -]`)

// anchor is what links to a heading end with.
func anchor(title string) string {
	return strings.ReplaceAll(dropped.ReplaceAllString(strings.ToLower(title), ""), " ", "-")
}

// block reads and writes the next one.
func (r *rendering) block() {
	line := strings.TrimLeft(r.lines[0], " ")
	switch {
	case line == "":
		r.next()
		r.tight = false
	case strings.HasPrefix(line, fence):
		r.next()
		r.code(r.until(func(line string) bool { return strings.HasPrefix(strings.TrimLeft(line, " "), fence) }))
	case strings.HasPrefix(line, "<!--"):
		r.until(func(line string) bool { return strings.Contains(line, "-->") })
	case strings.HasPrefix(line, "<picture>"):
		shown := strings.Join(r.until(func(line string) bool { return strings.HasPrefix(line, "</picture>") }), "\n")
		if match := alternate.FindStringSubmatch(shown); match != nil {
			r.paragraph("[Picture: " + match[1] + "]")
		}
	case strings.HasPrefix(line, "<"):
		r.next()
		if match := summary.FindStringSubmatch(line); match != nil {
			r.paragraph(match[1] + ":")
		}
	case strings.HasPrefix(line, "|"):
		r.table(r.while(func(line string) bool { return strings.HasPrefix(line, "|") }))
	case heading.MatchString(line):
		r.next()
		r.heading(line)
	default:
		r.paragraph(strings.Join(append([]string{r.next()}, r.while(continues)...), " "))
	}
}

// continues says whether a line belongs to the paragraph before it.
func continues(line string) bool {
	line = strings.TrimLeft(line, " ")
	return line != "" && !item.MatchString(line) && !footnote.MatchString(line) &&
		!strings.HasPrefix(line, fence) && !strings.HasPrefix(line, "|") && !strings.HasPrefix(line, "<") && !heading.MatchString(line)
}

func (r *rendering) next() string {
	line := r.lines[0]
	r.lines = r.lines[1:]
	return line
}

// while reads the lines for which a condition holds.
func (r *rendering) while(holds func(string) bool) []string {
	n := slices.IndexFunc(r.lines, func(line string) bool { return !holds(line) })
	if n < 0 {
		n = len(r.lines)
	}
	read := r.lines[:n]
	r.lines = r.lines[n:]
	return read
}

// until reads the lines before one that ends a block, and that one.
func (r *rendering) until(ends func(string) bool) []string {
	read := r.while(func(line string) bool { return !ends(line) })
	if len(r.lines) > 0 {
		r.next()
	}
	return read
}

// write writes a block, an empty line before it.
func (r *rendering) write(lines ...string) {
	if r.out.Len() > 0 && !r.tight {
		r.out.WriteByte('\n')
	}
	for _, line := range lines {
		r.out.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	r.tight = false
}

func (r *rendering) heading(line string) {
	match := heading.FindStringSubmatch(line)
	title := r.inline(match[2])
	switch len(match[1]) {
	case 1:
		r.write(strings.ToUpper(title))
	case 2:
		r.write(title, strings.Repeat("-", screen.Width(title)))
	default:
		r.write(strings.Repeat("-", len(match[1])-1) + " " + title)
	}
}

// code is never wrapped: it can be copied.
func (r *rendering) code(lines []string) {
	shown := make([]string, len(lines))
	for i, line := range lines {
		shown[i] = "    " + line
	}
	r.write(shown...)
}

// paragraph is one of its own, an item of a list, or a footnote.
func (r *rendering) paragraph(text string) {
	inside := strings.TrimLeft(text, " ")
	first := text[:len(text)-len(inside)] // a paragraph within an item of a list
	later, text := first, inside
	match := item.FindStringSubmatch(text)
	if match != nil {
		first, text = first+match[1]+" ", match[2]
		later = strings.Repeat(" ", len(first))
	} else if note := footnote.FindStringSubmatch(text); note != nil {
		text = fmt.Sprintf("[%s] %s", note[1], note[2])
	}
	r.write(wrap(r.inline(text), r.columns, first, later)...)
	r.tight = match != nil
}

var (
	code     = regexp.MustCompile("`[^`]*`")
	image    = regexp.MustCompile(`!\[([^\]]*)\]\([^)\s]*\)`)
	link     = regexp.MustCompile(`\[([^\]]*)\]\(([^)\s]*)\)`)
	noted    = regexp.MustCompile(`\[\^(\w+)\]`)
	strong   = regexp.MustCompile(`\*\*((?:[^*]|\*[^*]+\*)+)\*\*`)
	emphasis = regexp.MustCompile(`\*(\S(?:[^*]*[^\s*])?)\*`)
)

// held stands for a space within code, which ends no line.
const held = "\u00a0"

// target says where a link leads, unless its text does: to an address, a page, or a heading of this page. Other
// files of the repository are not here.
func (r *rendering) target(text, link string) string {
	if strings.Contains(link, "://") {
		return " <" + link + ">"
	}
	file, at, _ := strings.Cut(link, "#")
	if file == "" {
		if title := r.heads[at]; title != "" && !strings.EqualFold(text, title) {
			return ` (see "` + title + `")`
		}
		return ""
	}
	page, found := Find(path.Join(path.Dir(r.file), file))
	if !found || strings.EqualFold(text, page.Name) {
		return ""
	}
	return " (" + page.Name + suffix + ")"
}

// inline is a text without its marks.
func (r *rendering) inline(text string) string {
	var spans []string
	text = code.ReplaceAllStringFunc(text, func(span string) string {
		span = strings.Trim(span, "`")
		if screen.Width(span) <= r.columns/2 {
			span = strings.ReplaceAll(span, " ", held)
		}
		spans = append(spans, span)
		return fmt.Sprintf("\x00%d\x00", len(spans)-1)
	})
	text = image.ReplaceAllString(text, "[Picture: $1]")
	text = link.ReplaceAllStringFunc(text, func(whole string) string {
		match := link.FindStringSubmatch(whole)
		return match[1] + r.target(match[1], match[2])
	})
	text = emphasis.ReplaceAllString(strong.ReplaceAllString(noted.ReplaceAllString(text, "[$1]"), "$1"), "$1")
	for i, span := range spans {
		text = strings.Replace(text, fmt.Sprintf("\x00%d\x00", i), span, 1)
	}
	return text
}

// plain is a text without its marks on one line.
func plain(text string) string {
	return strings.ReplaceAll((&rendering{}).inline(text), held, " ")
}

// wrap divides a text into lines of so many columns, with what stands before the first and before the later
// ones. A word that is longer has a line of its own.
func wrap(text string, columns int, first, later string) (lines []string) {
	line, words := first, 0
	for word := range strings.SplitSeq(text, " ") {
		if word == "" {
			continue
		}
		if words > 0 && screen.Width(line)+1+screen.Width(word) > columns {
			lines = append(lines, line)
			line, words = later, 0
		}
		if words > 0 {
			line += " "
		}
		line += word
		words++
	}
	lines = append(lines, line)
	for i := range lines {
		lines[i] = strings.ReplaceAll(lines[i], held, " ")
	}
	return lines
}

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
