package demo

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/pqbridge/pqbridge/cmd/pq/internal/session"
	"github.com/pqbridge/pqbridge/cmd/pq/internal/show"
)

// page prints what a step does, as it does it, or all of it at the end as one object.
type page struct {
	demo   *demo
	number int
	title  string
	lines  []string
	looks  []string
	err    error // of printing
}

// indent is in front of what a step says.
const indent = "   "

func (p *page) begin() error { return p.print(fmt.Sprintf("\n%d. %s\n", p.number, p.title)) }

// say prints a sentence.
func (p *page) say(format string, args ...any) {
	line := fmt.Sprintf(format, args...)
	p.lines = append(p.lines, line)
	p.keep(p.print(wrap(line, indent, indent)))
}

// look prints commands that show the same.
func (p *page) look(commands ...string) {
	p.looks = append(p.looks, commands...)
	p.keep(p.print(wrap("Look: "+strings.Join(commands, "; "), indent, indent+"  ")))
}

func (p *page) keep(err error) {
	if p.err == nil {
		p.err = err
	}
}

func (p *page) print(text string) error {
	if p.demo.session.Global.JSON {
		return nil
	}
	return p.demo.session.Printf("%s", strings.TrimSuffix(text, "\n"))
}

// end prints whether the step did what it promises.
func (p *page) end(failure error, took time.Duration) error {
	if p.demo.session.Global.JSON {
		shown := struct {
			Step    int      `json:"step"`
			Title   string   `json:"title"`
			OK      bool     `json:"ok"`
			Seconds float64  `json:"seconds"`
			Text    []string `json:"text"`
			Look    []string `json:"look,omitempty"`
			Error   string   `json:"error,omitempty"`
		}{p.number, p.title, failure == nil, took.Seconds(), p.lines, p.looks, ""}
		if failure != nil {
			shown.Error = session.WithoutPrefix(failure)
		}
		return p.demo.session.PrintJSON(shown)
	}
	if failure != nil {
		return p.print(wrap("FAILED: "+session.WithoutPrefix(failure), indent, indent+"  "))
	}
	return p.print(fmt.Sprintf("%sok, %s", indent, show.Span(took.Round(10*time.Millisecond))))
}

// columns are those of the smallest terminal.
const columns = 80

// wrap breaks a text into lines that fit. A longer word stays whole: it may be an address to copy.
func wrap(text, first, further string) string {
	var b strings.Builder
	line := first
	for at, word := range strings.Fields(text) {
		switch {
		case at == 0:
			line += word
		case utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > columns:
			b.WriteString(line + "\n")
			line = further + word
		default:
			line += " " + word
		}
	}
	return b.String() + line + "\n"
}
