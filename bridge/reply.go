package bridge

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/bridge/internal/failure"
	"github.com/pqbridge/pqbridge/bridge/internal/peers"
	"github.com/pqbridge/pqbridge/subjects"
)

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
