package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/pqbridge/pqbridge/cmd/pq/internal/session"
	"github.com/pqbridge/pqbridge/cmd/pq/internal/show"
	"github.com/pqbridge/pqbridge/internal/screen"
)

// watchVar defines --watch: how long to wait before the same is shown again.
func watchVar(f *pflag.FlagSet, every *time.Duration) {
	session.DurationVar(f, every, "watch", "w", "show it again every `duration`, until q or Ctrl-C")
	f.Lookup("watch").NoOptDefVal = "1s"
}

// watch shows something once, or again and again: in a terminal in the same place, otherwise
// one below the other. What is shown ends with a line feed.
func watch(s *session.Session, every time.Duration, look func(context.Context) (string, error)) error {
	if every == 0 {
		text, err := look(s.Context)
		if err != nil {
			return err
		}
		return s.Print(text)
	}
	if t := s.Tty(); t != nil && !s.Global.JSON {
		return watchScreen(s, t, every, look)
	}
	for n := 1; ; n++ {
		if n > 1 && !s.Global.JSON {
			if err := s.Print("\n"); err != nil {
				return err
			}
		}
		began := time.Now()
		text, err := look(s.Context)
		switch {
		case err == nil:
			if err := s.Print(text); err != nil {
				return err
			}
		case n == 1, s.Context.Err() != nil:
			return session.Interrupted(s.Context, err)
		default:
			s.Warn(err)
		}
		select {
		case <-time.After(session.Pause(time.Since(began), every)):
		case <-s.Context.Done():
			return session.Interrupted(s.Context, s.Context.Err())
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
func watchScreen(s *session.Session, t *session.Tty, every time.Duration, look func(context.Context) (string, error)) (err error) {
	ctx, cancel := context.WithCancel(s.Context)
	defer cancel()
	restore, err := t.Raw()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, restore()) }()
	w := &watcher{screen: screen.New(t.Out, s.Env["NO_COLOR"] == "")}
	if err := w.screen.Open(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.screen.Close()) }()
	defer t.WatchSize()()
	leave := make(chan struct{})
	go func() {
		defer close(leave)
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		_ = screen.Keys(ctx, t.In, func(k screen.Key) {
			if k == "q" || k == screen.CtrlC || k == screen.Escape {
				cancel()
			}
		})
	}()
	w.resize(t.Size())
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
				return session.Interrupted(s.Context, a.err)
			}
			w.take(a)
			next = time.After(session.Pause(a.took, every))
		case <-clock.C:
		case <-t.Resized:
			w.resize(t.Size())
		case <-leave:
			return nil
		case <-s.Context.Done():
			return session.Interrupted(s.Context, s.Context.Err())
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
	if w.why = session.WithoutPrefix(a.err); w.down.IsZero() {
		w.down = a.at
	}
}

func (w *watcher) draw(now time.Time) error {
	var style screen.Style
	head := screen.Line{{Text: now.Format(time.TimeOnly)}, {Text: "  q: quit", Style: screen.Faint}}
	if !w.down.IsZero() {
		style = screen.Faint
		head = screen.Line{{Text: show.Disconnected(now, w.down, w.good, w.why), Style: screen.Reverse | screen.Red}}
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
