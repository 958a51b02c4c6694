package top

import (
	"flag"
	"fmt"
	"html"
	"os"
	"strings"
	"testing"

	"github.com/pqbridge/pqbridge/internal/screen"
	"github.com/pqbridge/pqbridge/internal/testkit/vt"
	"github.com/pqbridge/pqbridge/protocol"
)

var draw = flag.Bool("draw", false, "write docs/top.svg")

// The tutorial shows a picture of pq top: what it draws for these queues. After a change run
// make pictures.
func TestTopPicture(t *testing.T) {
	t.Parallel()
	f := newFakeTop(t, 100, 16)
	for _, q := range []struct {
		name                          string
		ready, leased, delayed, grave int64
		oldest                        float64
		waiting                       int
		push, pop, settle             float64
	}{
		{"checkout", 12, 48, 0, 0, 0.4, 16, 412, 415, 411},
		{"encode-video", 1874, 8, 0, 3, 5400, 0, 21, 0.8, 0.7},
		{"invoices", 230, 0, 4100, 0, 86400, 0, 4.2, 0, 0},
		{"mail", 96, 32, 210, 17, 7, 4, 188, 180, 176},
		{"newsletter", 40_210, 0, 0, 0, 9000, 0, 0, 0, 0},
		{"search-index", 3, 12, 0, 0, 0.1, 8, 97, 98, 96},
		{"thumbnails", 0, 24, 0, 0, 0, 40, 530, 530, 528},
	} {
		i := f.add(q.name, q.ready, q.push)
		i.Leased, i.Delayed, i.Oldest, i.OldestOfAll, i.Waiting = q.leased, q.delayed, q.oldest, q.oldest, q.waiting
		i.Rates = protocol.Rates{Push: q.push, Pop: q.pop, Settle: q.settle}
		i.Paused = q.name == "newsletter"
		if q.grave > 0 {
			dead := f.add(q.name+"-dead", q.grave, 0)
			dead.Oldest, dead.OldestOfAll = 3000, 3000
		}
	}
	f.start()
	f.press(screen.Down, screen.Down)
	const picture = "../../../../docs/top.svg"
	drawn := drawScreen(f.terminal)
	if *draw {
		if err := os.WriteFile(picture, []byte(drawn), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if text, err := os.ReadFile(picture); err != nil || string(text) != drawn {
		t.Errorf("docs/top.svg is not what pq top draws: run make pictures (%v)", err)
	}
}

// fills are the colors of the styles, by their numbers.
var fills = map[string]string{"31": "#e06c75", "32": "#98c379", "33": "#e5c07b", "34": "#61afef"}

// drawScreen returns an SVG of a screen, as docs/terminal.svg is one of a session. Browsers
// make one space of several, unless they are no-break spaces.
func drawScreen(s *vt.Screen) string {
	const fontSize, lineHeight, charWidth, margin, bar = 14, 20, 8.43, 20, 30
	const back, front, bright = "#1e2127", "#abb2bf", "#ffffff"
	cells := s.Cells()
	width, height := int(float64(len(cells[0]))*charWidth)+2*margin, len(cells)*lineHeight+2*margin+bar
	var svg strings.Builder
	fmt.Fprintf(&svg, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %[1]d %[2]d" role="img">`+"\n", width, height)
	svg.WriteString("<title>pq top in a terminal: queues with their items by state, dead letters, ages and rates</title>\n")
	fmt.Fprintf(&svg, `<rect width="%d" height="%d" rx="8" fill="%s"/>`+"\n", width, height, back)
	for i, color := range []string{"#e06c75", "#e5c07b", "#98c379"} {
		fmt.Fprintf(&svg, `<circle cx="%d" cy="%d" r="6" fill="%s"/>`+"\n", margin+i*20, bar/2+4, color)
	}
	fmt.Fprintf(&svg, `<g font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, monospace" font-size="%d">`+"\n", fontSize)
	for n, line := range cells {
		y := bar + margin + n*lineHeight + fontSize
		last := len(line)
		for last > 0 && line[last-1].Rune == ' ' && line[last-1].Style == "" {
			last--
		}
		if last == 0 {
			continue
		}
		marked := strings.Contains(";"+line[0].Style+";", ";7;")
		if marked {
			fmt.Fprintf(&svg, `<rect x="%d" y="%d" width="%d" height="%d" fill="%s"/>`+"\n", margin/2, y-fontSize-1, width-margin, lineHeight, front)
		}
		fmt.Fprintf(&svg, `<text x="%d" y="%d" fill="%s">`, margin, y, map[bool]string{false: front, true: back}[marked])
		for from := 0; from < last; {
			to, text := from, ""
			for ; to < last && line[to].Style == line[from].Style; to++ {
				text += string(line[to].Rune)
			}
			fill := ""
			for number := range strings.SplitSeq(line[from].Style, ";") {
				if number == "1" {
					fill = bright
				}
				if fills[number] != "" && !marked {
					fill = fills[number]
				}
			}
			if text = strings.ReplaceAll(html.EscapeString(text), " ", "\u00a0"); fill != "" {
				text = fmt.Sprintf(`<tspan fill="%s">%s</tspan>`, fill, text)
			}
			svg.WriteString(text)
			from = to
		}
		svg.WriteString("</text>\n")
	}
	svg.WriteString("</g>\n</svg>\n")
	return svg.String()
}
