package client

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/protocol"
)

// Before the first request of a connection the mailbox finds out whether the server lets it receive answers:
// otherwise a pop would take an item that reaches no client. The server does not confirm a subscription, but it
// refuses one before it answers a later ping. After a reconnect the result may differ.

// admission is a question to the server, under way, whether the mailbox may receive.
type admission struct {
	done chan struct{} // closed when err is there
	err  error
}

// errAway: there is no connection on which to ask.
var errAway = errors.New("the NATS server is away")

// connection returns the number of the connection, from 1, false while there is none.
func (b *mailbox) connection() (n uint64, up bool) {
	switch b.nc.Status() {
	case nats.DISCONNECTED, nats.CONNECTING, nats.RECONNECTING:
		return 0, false
	}
	return b.nc.Stats().Reconnects + 1, true
}

// mayAsk returns nil if requests may be sent on the connection, and otherwise the reason. It does not wait.
func (b *mailbox) mayAsk() error {
	n, up := b.connection()
	switch {
	case b.nc.IsClosed():
		return nats.ErrConnectionClosed
	case !up:
		return errAway
	case b.admitted.Load() == n:
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.refusedOn == n {
		return b.refusal
	}
	return errAway
}

// refusedForGood returns the reason for which no request may be sent on the present connection, if trying again
// does not help. Without a connection it does not wait for one.
func (c *Client) refusedForGood(ctx context.Context, op, queue string) error {
	if c.mailbox.mayAsk() == nil {
		return nil
	}
	if _, up := c.mailbox.connection(); !up {
		return nil
	}
	err := c.admitted(ctx, op, queue)
	if e := (*Error)(nil); errors.As(err, &e) && e.again(true) {
		return nil
	}
	return err
}

// admit waits until requests may be sent on the connection.
func (b *mailbox) admit(ctx context.Context) error {
	for b.mayAsk() != nil {
		a := b.beginAdmission()
		select {
		case <-a.done:
		case <-ctx.Done():
			if _, up := b.connection(); !up {
				return fmt.Errorf("%w: %w", errAway, ctx.Err())
			}
			return ctx.Err()
		}
		if a.err != nil {
			return a.err
		}
	}
	return nil
}

// beginAdmission asks the server, unless a question is under way.
func (b *mailbox) beginAdmission() *admission {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.asking == nil {
		a := &admission{done: make(chan struct{})}
		b.asking = a
		go func() {
			a.err = b.ask()
			b.mu.Lock()
			b.asking = nil
			b.mu.Unlock()
			close(a.done)
		}()
	}
	return b.asking
}

// ask asks until a connection has lasted for as long as the question.
func (b *mailbox) ask() error {
	for {
		n, up := b.connection()
		refusal, err := b.subscribe()
		if err != nil {
			return err
		}
		if now, _ := b.connection(); !up || now != n {
			continue
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		if refusal == nil {
			b.admitted.Store(n)
			return nil
		}
		b.refusal, b.refusedOn = &inboxRefused{cause: refusal, likely: likelyInbox(b.nc)}, n
		return b.refusal
	}
}

// subscribe subscribes the mailbox, unless it is subscribed, and returns the server's reason if it refuses.
func (b *mailbox) subscribe() (refusal, err error) {
	subject, deeper, again := b.prefix+"*", b.prefix+waits+rand.Text(), false
	b.shallow.Store(false)
	refusal, err = b.refused(context.Background(), b.known, func() (string, error) {
		if again {
			last := b.nc.LastError()
			b.shallow.Store(b.shallow.Load() || last != nil && strings.Contains(last.Error(), deeper))
			return b.probe(b.nc.NewInbox() + ".*")
		}
		again = true
		if _, err := b.probe(deeper); err != nil {
			return "", err
		}
		if b.sub == nil {
			sub, err := b.nc.Subscribe(subject, b.deliver)
			if err != nil {
				return "", err
			}
			b.sub = sub
		}
		return subject, nil
	})
	if refusal != nil {
		err = b.sub.Unsubscribe()
		b.sub, b.known = nil, refusal
	}
	return refusal, err
}

// probe subscribes for a moment. The server treats all inboxes alike.
func (b *mailbox) probe(subject string) (string, error) {
	sub, err := b.nc.Subscribe(subject, func(*nats.Msg) {})
	if err != nil {
		return "", err
	}
	return subject, sub.Unsubscribe()
}

// refusals is how often the client asks again if another permission error hides the answer.
const refusals = 5

// refused returns the server's permission error about the subject of try, nil if there is none but the known one.
// try is called again if another error has come in between, since the connection remembers only the last one.
func (b *mailbox) refused(ctx context.Context, known error, try func() (subject string, err error)) (refusal, err error) {
	for range refusals {
		before := b.nc.LastError()
		subject, err := try()
		if err != nil {
			return nil, err
		}
		if err := b.flush(ctx); err != nil {
			return nil, err
		}
		last := b.nc.LastError()
		switch {
		case last == nil:
			return nil, nil
		case last != known && errors.Is(last, nats.ErrPermissionViolation) && strings.Contains(last.Error(), subject):
			return last, nil
		case last == before:
			return nil, nil
		}
	}
	return nil, nil
}

// flushFor is how long one ping may stay unanswered until the next one.
const flushFor = 10 * time.Second

// flush waits until the server has answered a ping, or until the connection is closed for good.
func (b *mailbox) flush(ctx context.Context) error {
	for {
		once, cancel := context.WithTimeout(ctx, flushFor)
		err := b.nc.FlushWithContext(once)
		cancel()
		switch {
		case err == nil || b.nc.IsClosed():
			return err
		case ctx.Err() != nil:
			return ctx.Err()
		}
	}
}

// inboxRefused is the error of requests that are not sent because no answer could arrive.
type inboxRefused struct {
	cause  error
	likely string // the inbox prefix of the user
}

func (e *inboxRefused) Error() string {
	return fmt.Sprintf("nothing was sent, because no answer could arrive: %s; set the inbox prefix of this user, such as nats.CustomInboxPrefix(%q), pq --inbox-prefix %s",
		violation.Replace(e.cause.Error()), e.likely, e.likely)
}

// violation drops the text that nats.go puts in front of the server's.
var violation = strings.NewReplacer("nats: permissions violation: ", "")

// likelyInbox is the inbox prefix that docs and deploy/nats.conf give the user of a connection.
func likelyInbox(nc *nats.Conn) string {
	user := nc.Opts.User
	if at, err := url.Parse(nc.ConnectedUrl()); err == nil && user == "" {
		if _, login := at.User.Password(); login { // otherwise it is a token
			user = at.User.Username()
		}
	}
	return nats.InboxPrefix + cmp.Or(user, "<user>")
}

// admitted waits until a request may be sent, and returns the error of a request that may not.
func (c *Client) admitted(ctx context.Context, op, queue string) error {
	return c.notAdmitted(op, queue, c.mailbox.admit(ctx))
}

// notAdmitted is the error of a request that was not sent, for the reason why.
func (c *Client) notAdmitted(op, queue string, why error) error {
	var refused *inboxRefused
	switch {
	case errors.As(why, &refused):
		return &Error{Op: op, Queue: queue, Code: protocol.CodeForbidden, cause: refused.cause, Description: refused.Error()}
	case errors.Is(why, errAway):
		return &Error{Op: op, Queue: queue, Code: protocol.CodeUnavailable, cause: why, Description: errAway.Error()}
	}
	return why
}
