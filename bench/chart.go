package main

import (
	"fmt"
	"html"
	"io"
)

// The chart's measures, in its own units.
const (
	chartLabels = 170 // width of the systems' names
	chartPanel  = 250 // width of a panel
	chartGap    = 24
	chartRow    = 24
	chartBar    = 15
	chartTop    = 64
	chartBottom = 44
)

// writeChart draws the rates at so many clients: a panel for each verb, a bar
// for each system, a line for the echo.
func (r *results) writeChart(w io.Writer, clients int) {
	panels := []struct{ title, verb, instead string }{
		{"push", verbPush, ""},
		{"pop", verbPop, ""},
		{"lease+ack", verbLease, verbLeave},
	}
	var shown []*system
	for _, s := range r.measured() {
		if s.name != nameEcho {
			shown = append(shown, s)
		}
	}
	echo := r.rate(nameEcho, verbPush, clients, backlogUsual)
	most := echo
	for _, s := range shown {
		for _, verb := range allVerbs {
			most = max(most, r.rate(s.name, verb, clients, backlogUsual))
		}
	}
	if most == 0 {
		return
	}
	width := chartLabels + len(panels)*(chartPanel+chartGap)
	height := chartTop + len(shown)*chartRow + chartBottom
	fmt.Fprintf(w, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12">`+"\n", width, height)
	fmt.Fprintf(w, `<rect width="%d" height="%d" fill="#fff"/>`+"\n", width, height)
	text := func(x, y int, anchor, style, s string) {
		fmt.Fprintf(w, `<text x="%d" y="%d" text-anchor="%s" %s>%s</text>`+"\n", x, y, anchor, style, html.EscapeString(s))
	}
	text(10, 20, "start", `font-weight="bold" font-size="14"`, fmt.Sprintf("Operations a second, %s, 100-byte items", plural(clients, "client")))
	for p, panel := range panels {
		left := chartLabels + p*(chartPanel+chartGap)
		// The numbers need room to the right of the longest bar.
		scale := float64(chartPanel-50) / most
		text(left, chartTop-12, "start", `font-weight="bold"`, panel.title)
		for i, s := range shown {
			y := chartTop + i*chartRow
			if p == 0 {
				text(chartLabels-8, y+chartBar-3, "end", "", s.name)
			}
			rate := r.rate(s.name, panel.verb, clients, backlogUsual)
			mark := ""
			if rate == 0 && panel.instead != "" {
				rate, mark = r.rate(s.name, panel.instead, clients, backlogUsual), "*"
			}
			if rate == 0 {
				continue
			}
			color := map[bool]string{true: "#1f6f8b", false: "#a9cfd9"}[s.durable]
			if s.name == namePQD || s.name == namePQDFast {
				color = map[bool]string{true: "#c8501e", false: "#eebd9f"}[s.durable]
			}
			long := max(1, int(rate*scale))
			fmt.Fprintf(w, `<rect x="%d" y="%d" width="%d" height="%d" fill="%s"/>`+"\n", left, y, long, chartBar, color)
			text(left+long+4, y+chartBar-3, "start", `fill="#333" font-size="11"`, number(rate)+mark)
		}
		if echo > 0 {
			x := left + int(echo*scale)
			fmt.Fprintf(w, `<line x1="%d" y1="%d" x2="%d" y2="%d" stroke="#555" stroke-dasharray="4 3"/>`+"\n", x, chartTop-6, x, chartTop+len(shown)*chartRow-4)
			text(x, chartTop-12, "end", `fill="#555" font-size="11"`, "echo "+number(echo))
		}
	}
	text(10, height-14, "start", `fill="#333"`,
		"Dark bars: an answered push is synced to disk. Light bars: it is not yet. Dashed: an echo service on the same NATS server. * acknowledgements are not answered")
	fmt.Fprintln(w, `</svg>`)
}
