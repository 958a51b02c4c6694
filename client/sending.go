package client

import (
	"cmp"
	"errors"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/internal/lanes"
	"github.com/pqbridge/pqbridge/protocol"
)

// attempts are the attempts of a request.
type attempts struct {
	sent    int
	answers int    // that gave the result of an attempt
	refusal *Error // the last one
}

// open reports whether an attempt without an answer may have taken effect.
func (a attempts) open() bool { return a.sent > a.answers }

// and returns the sum of these attempts and the attempts that followed them.
func (a attempts) and(more attempts) attempts {
	return attempts{a.sent + more.sent, a.answers + more.answers, cmp.Or(more.refusal, a.refusal)}
}

// sending is a request that is sent, and repeated if necessary. No goroutine waits for its answer.
type sending struct {
	client     *Client
	op, queue  string
	msg        *nats.Msg
	repeatable bool                         // doing it twice has the same effect as doing it once
	divides    func(*Error) bool            // reports whether the request must be divided after a refusal instead of being repeated; nil: never
	done       func(m *nats.Msg, err error) // is called once, unless no caller waits any more
	unwanted   func()                       // is called once if no caller waits any more
	silent     func() bool                  // reports whether the request ends with errSilence instead of being repeated without an answer; nil: it is repeated

	mu      sync.Mutex
	callers int // that wait for the answer
	over    bool
	stop    func() // receiving answers
	tried   attempts
	wait    time.Duration // for the answer, before it is sent again
	timer   *time.Timer   // until it is sent again
	retry   retry
}

// receive registers the request for answers, before it is sent.
func (s *sending) receive() {
	s.wait = s.client.patience.attempt
	s.msg.Reply, s.stop = s.client.mailbox.receive(addressee{deliver: s.answer, reconnect: s.reconnect})
}

// begin sends the request. It returns an error if sending has failed and is not tried again.
func (s *sending) begin() error {
	if err := s.publish(); err != nil && !s.resend(err) {
		return err
	}
	return nil
}

// publish sends the message, and repeats that until an answer arrives.
func (s *sending) publish() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return nil
	}
	if err := s.client.mailbox.mayAsk(); err != nil {
		return s.client.notAdmitted(s.op, s.queue, err)
	}
	if err := s.client.publish(s.op, s.queue, s.msg); err != nil {
		return err
	}
	s.tried.sent++
	if s.repeatable {
		s.after(s.wait, s.repeat)
		s.wait = longer(s.wait)
	}
	return nil
}

// after calls a function after d, unless the message is answered, or sent again, by then.
func (s *sending) after(d time.Duration, f func()) {
	if s.timer != nil {
		s.timer.Stop()
	}
	s.timer = time.AfterFunc(d, f)
}

// errSilence: no bridge answers requests of this form.
var errSilence = errors.New("no answer")

// repeat sends the message again, since no answer has come.
func (s *sending) repeat() {
	if s.silent != nil && s.silent() {
		s.finish(nil, errSilence)
	} else {
		s.resume()
	}
}

// resume sends the message again.
func (s *sending) resume() {
	if err := s.begin(); err != nil {
		s.finish(nil, err)
	}
}

// reconnect sends the message again: its answer may be lost with the old connection, or there was no connection on
// which to send it.
func (s *sending) reconnect() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.over && s.repeatable && (s.tried.sent > 0 || s.timer != nil) {
		s.after(0, s.resume)
	}
}

// answer handles a bridge's answer.
func (s *sending) answer(m *nats.Msg) {
	e := answered(m, s.op, s.queue)
	if e == nil || e.Code != protocol.CodeUnknownResult {
		s.mu.Lock()
		s.tried.answers++
		s.mu.Unlock()
	}
	switch {
	case e == nil:
		s.finish(m, nil)
	case !s.resend(e):
		s.finish(nil, e)
	}
}

// resend reports whether the message may be sent again, and schedules it.
func (s *sending) resend(err error) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return true
	}
	var e *Error
	again := errors.As(err, &e) && (s.divides == nil || !s.divides(e)) &&
		e.again(s.repeatable) && s.retry.allowed(s.client.patience, e)
	if again {
		s.tried.refusal = e
		s.after(s.retry.delay(), s.resume)
	}
	return again
}

// finish ends the request; only the first end counts.
func (s *sending) finish(m *nats.Msg, err error) {
	s.mu.Lock()
	first := s.end()
	s.mu.Unlock()
	if first {
		s.stop()
		s.done(m, err)
	}
}

// end ends the request, and reports false if it had ended already. The caller holds the lock.
func (s *sending) end() bool {
	if s.over {
		return false
	}
	s.over = true
	if s.timer != nil {
		s.timer.Stop()
	}
	return true
}

// leave takes a caller out that waits no longer. The last one ends the request. It returns the attempts of which
// the caller was a part.
func (s *sending) leave() attempts {
	s.mu.Lock()
	s.callers--
	tried := s.tried
	if s.callers > 0 && !s.over {
		tried.sent = max(1, tried.sent) // if it was not sent yet, it is about to be
	}
	last := s.callers == 0 && s.end()
	s.mu.Unlock()
	if last {
		s.stop()
		s.unwanted()
	}
	return tried
}

// attempts returns the attempts so far.
func (s *sending) attempts() attempts {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tried
}

// caller is the part of one call in a lane, and then in a request.
type caller struct {
	mu    sync.Mutex
	ended bool
	key   lanes.Key // of the lane that it has joined
	by    *sending  // of which it is a part; nil: it has not left the lane
	tried attempts  // in requests before that one
}

// joined notes in which lane the call waits.
func (c *caller) joined(key lanes.Key) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.key = key
}

// board makes the call a part of a request, and reports false if its caller waits no longer.
func (c *caller) board(s *sending) bool {
	c.mu.Lock()
	ended := c.ended
	if !ended {
		c.by = s
	}
	c.mu.Unlock()
	if ended {
		s.leave()
	}
	return !ended
}

// unboard takes the call out of a request that has ended, for another request. unsure says that the answer does not
// tell the result of the last attempt.
func (c *caller) unboard(unsure bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tried = c.tried.and(c.by.attempts())
	c.by = nil
	if unsure {
		c.tried.answers--
	}
}

// attempts returns all attempts of the call so far.
func (c *caller) attempts() attempts {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.by == nil {
		return c.tried
	}
	return c.tried.and(c.by.attempts())
}

// where returns the lane that the call has joined, and the request of which it is a part.
func (c *caller) where() (lanes.Key, *sending) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.key, c.by
}

// end ends the call, reports false if it had ended already, and returns all its attempts.
func (c *caller) end() (tried attempts, first bool) {
	c.mu.Lock()
	first = !c.ended
	c.ended = true
	tried, by := c.tried, c.by
	c.mu.Unlock()
	if first && by != nil {
		tried = tried.and(by.leave())
	}
	return tried, first
}
