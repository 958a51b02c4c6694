package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/pqbridge/pqbridge/internal/screen"
)

// watchVar defines --watch: how long to wait before the same is shown again.
func watchVar(f *pflag.FlagSet, every *time.Duration) {
	durationVar(f, every, "watch", "w", "show it again every `duration`, until q or Ctrl-C")
	f.Lookup("watch").NoOptDefVal = "1s"
}

// watch shows something once, or again and again: in a terminal in the same place, otherwise
// one below the other. What is shown ends with a line feed.
func (s *session) watch(every time.Duration, look func(context.Context) (string, error)) error {
	if every == 0 {
		text, err := look(s.ctx)
		if err != nil {
			return err
		}
		return s.print(text)
	}
	if t := s.tty(); t != nil && !s.global.json {
		return s.watchScreen(t, every, look)
	}
	for n := 1; ; n++ {
		if n > 1 && !s.global.json {
			if err := s.print("\n"); err != nil {
				return err
			}
		}
		began := time.Now()
		text, err := look(s.ctx)
		switch {
		case err == nil:
			if err := s.print(text); err != nil {
				return err
			}
		case n == 1, s.ctx.Err() != nil:
			return interrupted(s.ctx, err)
		default:
			s.warn(err)
		}
		select {
		case <-time.After(seen{took: time.Since(began)}.spare(every)):
		case <-s.ctx.Done():
			return interrupted(s.ctx, s.ctx.Err())
		}
	}
}

// looked is what a look has found.
type looked struct {
	text string
	err  error
	at   time.Time
	took time.Duration
}

// watchScreen shows something in a terminal until q.
func (s *session) watchScreen(t *tty, every time.Duration, look func(context.Context) (string, error)) (err error) {
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	restore, err := t.raw()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, restore()) }()
	w := &watcher{screen: screen.New(t.out, s.env["NO_COLOR"] == "")}
	if err := w.screen.Open(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.screen.Close()) }()
	defer t.watchSize()()
	leave := make(chan struct{})
	go func() {
		defer close(leave)
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		_ = screen.Keys(ctx, t.in, func(k screen.Key) {
			if k == "q" || k == screen.CtrlC || k == screen.Escape {
				cancel()
			}
		})
	}()
	w.resize(t.size())
	answers := make(chan looked, 1)
	next := time.After(0)
	clock := time.NewTicker(time.Second)
	defer clock.Stop()
	for {
		select {
		case <-next:
			go func() {
				began := time.Now()
				text, err := look(ctx)
				answers <- looked{text, err, began, time.Since(began)}
			}()
		case a := <-answers:
			if a.err != nil && w.good.IsZero() {
				return interrupted(s.ctx, a.err)
			}
			w.take(a)
			next = time.After(seen{took: a.took}.spare(every))
		case <-clock.C:
		case <-t.resized:
			w.resize(t.size())
		case <-leave:
			return nil
		case <-s.ctx.Done():
			return interrupted(s.ctx, s.ctx.Err())
		}
		if err := w.draw(time.Now()); err != nil {
			return err
		}
	}
}

// watcher is what is shown of something that changes.
type watcher struct {
	screen         *screen.Screen
	columns, lines int
	text           string
	good           time.Time // of the text
	down           time.Time // since when there is none; zero: there is
	why            string
}

func (w *watcher) resize(columns, lines int) {
	w.columns, w.lines = columns, lines
	w.screen.Resize(columns, lines)
}

func (w *watcher) take(a looked) {
	if a.err == nil {
		w.text, w.good, w.down = a.text, a.at, time.Time{}
		return
	}
	if w.why = withoutPrefix(a.err); w.down.IsZero() {
		w.down = a.at
	}
}

func (w *watcher) draw(now time.Time) error {
	var style screen.Style
	head := screen.Line{{Text: now.Format(time.TimeOnly)}, {Text: "  q: quit", Style: screen.Faint}}
	if !w.down.IsZero() {
		style = screen.Faint
		head = screen.Line{{Text: disconnected(now, w.down, w.good, w.why), Style: screen.Reverse | screen.Red}}
	}
	lines := []screen.Line{head, nil}
	for text := range strings.SplitSeq(strings.TrimSuffix(w.text, "\n"), "\n") {
		lines = append(lines, screen.Line{{Text: text, Style: style}})
	}
	if len(lines) > w.lines && w.lines > 2 {
		more := len(lines) - w.lines + 1
		lines = append(lines[:w.lines-1], screen.Text(fmt.Sprintf("… %d more lines", more)))
	}
	return w.screen.Draw(lines)
}

// disconnected says since when nobody answers, and from when the numbers are.
func disconnected(now, since, good time.Time, why string) string {
	if good.IsZero() {
		return fmt.Sprintf(" disconnected since %s, %s: %s", since.Format(time.TimeOnly), span(now.Sub(since).Round(time.Second)), why)
	}
	return fmt.Sprintf(" disconnected since %s, %s: %s; numbers from %s",
		since.Format(time.TimeOnly), span(now.Sub(since).Round(time.Second)), why, good.Format(time.TimeOnly))
}
