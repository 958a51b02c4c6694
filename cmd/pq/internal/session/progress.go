package session

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/pqbridge/pqbridge/cmd/pq/internal/show"
)

// Progress draws a bar during long work, if the output is a terminal.
type Progress struct {
	out     io.Writer // nil: no terminal
	what    string
	total   int64 // 0: not known
	unit    func(int64) string
	started time.Time

	mu    sync.Mutex
	done  int64
	drawn time.Time
}

// drawEvery is how often the bar changes.
const drawEvery = 100 * time.Millisecond

// Progress starts one; unit writes how much is done, of how much, and per second.
func (s *Session) Progress(what string, total int64, unit func(int64) string) *Progress {
	p := &Progress{what: what, total: total, unit: unit, started: time.Now()}
	if interactive(s.Stderr) && !s.Global.JSON {
		p.out = s.Stderr
	}
	return p
}

// Set sets how much is done.
func (p *Progress) Set(done int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done = done
	if now := time.Now(); p.out != nil && now.Sub(p.drawn) >= drawEvery {
		p.drawn = now
		fmt.Fprintf(p.out, "\r%s\x1b[K", bar(p.what, p.done, p.total, now.Sub(p.started), p.unit))
	}
}

// Add adds to how much is done.
func (p *Progress) Add(n int64) {
	p.mu.Lock()
	done := p.done + n
	p.mu.Unlock()
	p.Set(done)
}

// End takes the bar away.
func (p *Progress) End() {
	if p.out != nil {
		fmt.Fprint(p.out, "\r\x1b[K")
	}
}

// bar is the text of a progress bar.
func bar(what string, done, total int64, elapsed time.Duration, unit func(int64) string) string {
	rate := 0.0
	if elapsed > 0 {
		rate = float64(done) / elapsed.Seconds()
	}
	if total <= 0 {
		return fmt.Sprintf("%s %s  %s/s", what, unit(done), unit(int64(rate)))
	}
	const width = 30
	share := min(1, float64(done)/float64(total))
	full := int(share * width)
	left := "?"
	if rate > 0 {
		left = show.Span(time.Duration(float64(max(0, total-done)) / rate * float64(time.Second)).Round(time.Second))
	}
	return fmt.Sprintf("%s [%s%s] %3.0f%%  %s of %s  %s/s  %s left",
		what, strings.Repeat("=", full), strings.Repeat(" ", width-full), share*100,
		unit(done), unit(total), unit(int64(rate)), left)
}
