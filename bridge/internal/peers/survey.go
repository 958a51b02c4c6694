package peers

import (
	"context"
	"encoding/binary"
	"log/slog"
	"maps"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// Survey asks the other bridges on a store, and answers them, whatever subjects they serve. Each of them may know
// things that no row has, such as which clients wait for an item.
//
// Any client that may publish to inboxes can send questions and answers, so both are encrypted with the store's
// secret, and carry the store time at which they were sent, which differs from message to message. An answer goes
// to the subject of the asking bridge, and not to a reply subject, which anybody could choose.
type Survey struct {
	nc      *nats.Conn
	id      string // of this bridge
	process string // its name in the store
	subject string // of questions; answers have the id of the asking bridge behind it
	box     box
	now     func() time.Duration
	log     *slog.Logger
	answer  func(question []byte) []byte
	heard   memory // of questions; used by one goroutine

	mu    sync.Mutex
	last  time.Duration // of the last message
	open  map[time.Duration]*asked
	quiet map[string]time.Duration // processes that were silent, and until when nobody waits for them
	subs  []*nats.Subscription
}

// quietFor is for how long nobody waits for a process that has been silent, so that many questions one after another do not
// all wait for it. An answer ends that.
const quietFor = 5 * time.Second

// asked is a question that waits for its answers.
type asked struct {
	of      map[string]bool // processes that have not answered, and whether they are waited for
	answers [][]byte
	all     chan struct{} // closed when those that are waited for have
}

// toAll stands for the receiver of a question, which is for all bridges.
const toAll = "*"

// NewSurvey returns the survey of a bridge, whose process has a name in the store. It neither asks nor answers before Start.
func NewSurvey(nc *nats.Conn, self Identity, process string, store Store, log *slog.Logger, answer func(question []byte) []byte) *Survey {
	return &Survey{
		nc: nc, id: self.ID, process: process, subject: Inbox(self.StoreID) + ".survey", box: box{secret: store.Secret, what: "surveys"},
		now: store.Time, log: log, answer: answer, heard: memory{last: make(map[string]time.Duration)},
		open: make(map[time.Duration]*asked), quiet: make(map[string]time.Duration),
	}
}

// Start listens to the other bridges.
func (s *Survey) Start() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for subject, handle := range map[string]nats.MsgHandler{s.subject: s.questioned, s.subject + "." + s.id: s.answered} {
		sub, err := s.nc.Subscribe(subject, handle)
		if err != nil {
			return err
		}
		s.subs = append(s.subs, sub)
	}
	return nil
}

// Stop ends listening. On nil it does nothing.
func (s *Survey) Stop() {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, sub := range s.subs {
		if err := sub.Unsubscribe(); err != nil {
			s.log.Debug("unsubscribing failed", "subject", sub.Subject, "error", err)
		}
	}
	s.subs = nil
}

// Ask asks processes on the store until all of them have answered, except those that were silent a short while ago,
// or ctx ends. It returns their answers, and how many are missing.
func (s *Survey) Ask(ctx context.Context, question []byte, of []string) (answers [][]byte, silent int) {
	a := s.about(of)
	at := s.say(s.subject, toAll, question, a)
	select {
	case <-a.all:
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, at)
	until := s.now() + quietFor
	for process, awaited := range a.of {
		if awaited {
			s.quiet[process] = until
		}
	}
	return a.answers, len(a.of)
}

// about is a question to processes, of whom those that are quiet are not waited for.
func (s *Survey) about(of []string) *asked {
	a := &asked{of: make(map[string]bool), all: make(chan struct{})}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	maps.DeleteFunc(s.quiet, func(_ string, until time.Duration) bool { return until <= now })
	for _, process := range of {
		_, quiet := s.quiet[process]
		a.of[process] = !quiet
	}
	if !a.waits() {
		close(a.all)
	}
	return a
}

// waits reports whether the question still waits for a process.
func (a *asked) waits() bool {
	for _, awaited := range a.of {
		if awaited {
			return true
		}
	}
	return false
}

// say sends a message, and returns its time, by which the answers to a question are known. Messages leave in the
// order of their times: others take an earlier time for a copy.
func (s *Survey) say(subject, to string, plain []byte, question *asked) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = max(s.last+1, s.now())
	if question != nil {
		s.open[s.last] = question
	}
	if err := s.nc.Publish(subject, s.box.close(to, s.id, s.last, plain)); err != nil {
		s.log.Debug("telling other bridges failed", "subject", subject, "error", err)
	}
	return s.last
}

// questioned answers the question of another bridge, once. It ignores this bridge's own.
func (s *Survey) questioned(m *nats.Msg) {
	from, at, question, ok := s.box.read(toAll, m.Data)
	if !ok || from == s.id || !s.heard.hears(from, at, s.now()) {
		return
	}
	plain := binary.BigEndian.AppendUint64(nil, uint64(at))
	plain = append(appendText(plain, s.process), s.answer(question)...)
	s.say(s.subject+"."+from, from, plain, nil)
}

// answered takes the answer of another bridge. Only the first answer of a process counts.
func (s *Survey) answered(m *nats.Msg) {
	_, _, plain, ok := s.box.read(s.id, m.Data)
	if !ok || len(plain) < timeBytes {
		return
	}
	at := time.Duration(binary.BigEndian.Uint64(plain))
	in := texts{rest: plain[timeBytes:]}
	process := in.next()
	s.mu.Lock()
	defer s.mu.Unlock()
	if in.broken {
		return
	}
	delete(s.quiet, process)
	a := s.open[at]
	if a == nil {
		return
	}
	awaited, asked := a.of[process]
	if !asked {
		return
	}
	delete(a.of, process)
	a.answers = append(a.answers, in.rest)
	if awaited && !a.waits() {
		close(a.all)
	}
}
