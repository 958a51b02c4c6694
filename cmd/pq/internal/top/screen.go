package top

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/cmd/pq/internal/session"
	"github.com/pqbridge/pqbridge/internal/natsurl"
	"github.com/pqbridge/pqbridge/internal/screen"
)

// topScreen runs top in a terminal: it brings keys, answers and time to the model, and the
// model's view to the terminal.
type topScreen struct {
	session *session.Session
	client  *client.Client
	model   *topModel
	screen  *screen.Screen

	happened chan any
	ctx      context.Context // ends with the screen
	changes  sync.WaitGroup
}

// full fills the terminal until the user leaves.
func (w *watching) full(s *session.Session, t *session.Tty) (err error) {
	ctx, cancel := context.WithCancel(s.Context)
	defer cancel()
	top := &topScreen{session: s, happened: make(chan any), ctx: ctx}
	// A refused request ends other commands. Here it may be one of many.
	if s.NC, err = s.DialWith(func(err error) { top.tell(refused{err}) }); err != nil {
		return err
	}
	if top.client, err = s.Connect(); err != nil {
		return err
	}
	s.NC.SetDisconnectErrHandler(func(*nats.Conn, error) { top.tell(linked{false}) })
	s.NC.SetReconnectHandler(func(*nats.Conn) { top.tell(linked{true}) })
	top.model = newTopModel(w, cmp.Or(natsurl.Of(s.NC), "NATS"), s.Global.Prefix)
	top.screen = screen.New(t.Out, s.Env["NO_COLOR"] == "")

	restore, err := t.Raw()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, restore()) }()
	if err := top.screen.Open(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, top.screen.Close()) }()
	defer t.WatchSize()()
	go func() {
		_ = screen.Keys(ctx, t.In, func(k screen.Key) { top.tell(k) })
		top.tell(ended{})
	}()
	return session.Interrupted(s.Context, top.loop(t))
}

// tell passes on what happened.
func (t *topScreen) tell(what any) {
	select {
	case t.happened <- what:
	case <-t.ctx.Done():
	}
}

// loop runs until the user leaves.
func (t *topScreen) loop(tty *session.Tty) error {
	// The clock moves every second, whatever the interval.
	ticker := time.NewTicker(min(t.model.interval, time.Second))
	defer ticker.Stop()
	columns, lines := tty.Size()
	for happened := any(resized{columns, lines}); ; {
		t.model.update(time.Now(), happened)
		if t.model.left {
			return t.leave()
		}
		if size, is := happened.(resized); is {
			t.screen.Resize(size.columns, size.lines)
		}
		if c := t.model.begins(); c != nil {
			t.change(*c)
		}
		if l := t.model.asks(); l != nil {
			t.look(l)
		}
		if err := t.screen.Draw(t.model.view()); err != nil {
			return err
		}
		select {
		case happened = <-t.happened:
		case <-ticker.C:
			happened = ticked{}
		case <-tty.Resized:
			columns, lines := tty.Size()
			happened = resized{columns, lines}
		case <-t.session.Context.Done():
			return t.session.Context.Err()
		}
	}
}

// look asks, without waiting for the answer.
func (t *topScreen) look(l look) {
	go func() {
		ctx, cancel := context.WithTimeout(t.ctx, t.session.Global.Timeout)
		defer cancel()
		began := time.Now()
		found, err := l.ask(ctx, t.client)
		t.tell(seen{l, began, time.Since(began), found, err})
	}()
}

// change changes something, without waiting for it.
func (t *topScreen) change(c change) {
	t.changes.Go(func() {
		text, err := c.run(t.ctx, t.session, t.client, func(n int64) { t.tell(progressed{n}) })
		if err != nil {
			text = c.String()
		}
		t.tell(done{text, err})
	})
}

// leave waits for what has begun: a dead letter is not left between two queues.
func (t *topScreen) leave() error {
	t.model.left = true
	stop := make(chan struct{})
	go func() {
		for {
			select {
			case <-t.happened:
			case <-stop:
				return
			}
		}
	}()
	t.changes.Wait()
	close(stop)
	return t.model.denied
}
