package bridge

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/bridge/internal/failure"
	"github.com/pqbridge/pqbridge/bridge/internal/peers"
	"github.com/pqbridge/pqbridge/bridge/internal/request"
	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/subjects"
)

var (
	errShedding = &failure.Failure{Code: 503, Text: "more requests arrive than this bridge can refuse, nothing was done: try again in a moment"}
	errFlood    = &failure.Failure{Code: 429, Reason: protocol.ReasonBusy, Text: "the tenant floods this bridge with messages, nothing was done: try again in a moment"}
)

// Answers are made once: whoever refuses unread does it because there is no time.
var (
	sheddingAnswer = request.AsPublish.Answer(errShedding)
	floodAnswers   = [...]*nats.Msg{
		request.AsService:    request.AsService.Answer(errFlood),
		request.AsPublish:    request.AsPublish.Answer(errFlood),
		request.AsSettlement: request.AsSettlement.Answer(errFlood),
	}
)

// refusePush refuses a push unread, while the bridge sheds load.
func (d *dispatcher) refusePush(m *nats.Msg) {
	if d.refused(verbPush, m.Subject, m.Reply, errShedding) {
		d.Publish(&nats.Msg{Subject: m.Reply, Header: sheddingAnswer.Header})
	}
}

// refuseFlood refuses a message unread, while its tenant floods the bridge. It never waits, so
// that a flood holds up nobody.
func (d *dispatcher) refuseFlood(tenant, subject, reply string) {
	d.tenants.Of(tenant).Unread()
	v := d.meant(subject)
	if !d.refused(v, subject, reply, errFlood) {
		return
	}
	answer := floodAnswers[v.Refusal]
	d.later.after(floodPause, floodsRoom, func() {
		d.Publish(&nats.Msg{Subject: reply, Header: answer.Header, Data: answer.Data})
	})
}

// refused counts a message that is refused unread, and reports whether it is to be answered.
func (d *dispatcher) refused(v *verb, subject, reply string, f *failure.Failure) bool {
	d.Stats.RefusedUnread(&v.Verb, f)
	if reply != "" && d.replies.answers(reply) {
		return true
	}
	if v == verbPush {
		d.Lost(d.meantQueue(subject), 1, f)
	}
	return false
}

const (
	// floodPause is how long the refusal of an unread request waits. A client that repeats a refused request at once would
	// otherwise send more of them, and the server reads them all.
	floodPause = time.Second

	// floodsRoom is how many refusals of unread requests may wait.
	floodsRoom = 16_384
)

// refusals are answers that a tenant gets late, or too many at once. One goroutine sends them, and few at a time, so that they
// hold up no other answers: all go through one connection. A bridge without tenants has no refusals: they are nil.
type refusals struct {
	flush func() // waits until the server has what was sent

	mu      sync.Mutex
	waiting []func()
	paused  int // that will be among those
	sending bool
}

const (
	// refusalsAtOnce is how many refusals are sent before the server has got those before.
	refusalsAtOnce = 32

	// flushRefusals bounds the wait for that.
	flushRefusals = time.Second
)

// after sends a refusal after a pause, unless room of them wait.
func (q *refusals) after(pause time.Duration, room int, refuse func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.paused+len(q.waiting) >= room {
		return
	}
	q.paused++
	time.AfterFunc(pause, func() {
		q.mu.Lock()
		q.paused--
		q.mu.Unlock()
		q.do(refuse)
	})
}

// do sends a refusal behind those that wait.
func (q *refusals) do(refuse func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiting = append(q.waiting, refuse)
	if !q.sending {
		q.sending = true
		go q.send()
	}
}

// send sends refusals until there are none.
func (q *refusals) send() {
	for {
		q.mu.Lock()
		some := q.waiting[:min(len(q.waiting), refusalsAtOnce)]
		q.waiting = q.waiting[len(some):]
		if len(some) == 0 {
			q.waiting, q.sending = nil, false
			q.mu.Unlock()
			return
		}
		q.mu.Unlock()
		for i, refuse := range some {
			refuse()
			some[i] = nil
		}
		if len(some) == refusalsAtOnce {
			q.flush()
		}
	}
}

// The bridge publishes an answer with its own rights. The client has chosen the
// subject, and may have chosen payload and headers, too. So the bridge answers only on
// inboxes, on the subjects that stand for inboxes across accounts, and on the patterns
// in its options. It refuses a request with another reply subject, or one that is too long for
// the line of an answer, without an answer.

// replies has the subjects on which the bridge answers.
type replies struct {
	never []string // what begins with these is not answered, whatever the patterns say
	more  []string // patterns
	log   *slog.Logger
}

// Answered without looking at patterns.
const (
	inboxes  = nats.InboxPrefix // _INBOX.
	accounts = "_R_."           // made by servers for requests from other accounts
)

// newReplies fails if an option is no pattern of subjects.
func newReplies(o Options, storeID string) (*replies, error) {
	for _, pattern := range o.ReplySubjects {
		if err := subjects.CheckPattern(pattern); err != nil {
			return nil, fmt.Errorf("reply subjects: %w", err)
		}
	}
	r := &replies{
		// The first are requests, the second are messages between bridges.
		never: []string{o.Prefix + ".", peers.Inbox(storeID) + "."},
		more:  o.ReplySubjects,
		log:   o.Logger,
	}
	if o.Site != "" {
		r.never = append(r.never, o.Site+"."+o.Prefix+".")
	}
	return r, nil
}

// answers reports whether the bridge answers on a reply subject.
func (r *replies) answers(subject string) bool {
	if len(subject) > subjects.MaxReply {
		return false
	}
	for _, prefix := range r.never {
		if strings.HasPrefix(subject, prefix) {
			return false
		}
	}
	if strings.HasPrefix(subject, inboxes) || strings.HasPrefix(subject, accounts) {
		return true
	}
	return slices.ContainsFunc(r.more, func(pattern string) bool { return subjects.Covers(pattern, subject) })
}

// refuse removes the reply subject of a message to a queue, or to none, and returns why. The log names
// the message: the subject may be a client's own inbox prefix.
func (r *replies) refuse(queue string, m *nats.Msg) *failure.Failure {
	r.log.Warn("refused a request: its reply subject is too long, or neither an inbox nor an allowed reply subject",
		"queue", queue, "subject", failure.Quote(m.Subject), "reply", failure.Quote(m.Reply), "bytes", len(m.Reply), "most", subjects.MaxReply)
	f := failure.Newf(403, "reply subject %s: expected an inbox, in _INBOX.> or where else the bridge is set to answer", failure.Quote(m.Reply))
	if len(m.Reply) > subjects.MaxReply {
		f = failure.Newf(403, "reply subject %s has %d bytes: expected at most %d", failure.Quote(m.Reply), len(m.Reply), subjects.MaxReply)
	}
	m.Reply = ""
	return f
}
