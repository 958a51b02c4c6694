package bridge

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/bridge/peers"
	"github.com/pqbridge/pqbridge/subjects"
)

// An answer is published with the bridge's own rights, on a subject that the
// sender of the request chose, and with a payload and headers that it may have
// chosen, too. So only what is made for answers is answered: inboxes, what
// stands for them across accounts, and what the bridge was told of. A request
// with any other reply subject is refused, and nobody can be told.

// replies knows the subjects that are answered.
type replies struct {
	never []string // what begins with these is not answered, whatever the patterns say
	more  []string // patterns
	log   *slog.Logger

	mu     sync.Mutex
	warned time.Time
}

// Answered without looking at patterns.
const (
	inboxes  = nats.InboxPrefix // _INBOX.
	accounts = "_R_."           // made by servers for requests from other accounts
)

// init fails for what is no pattern of subjects.
func (r *replies) init(o Options, storeID string) error {
	r.log = o.Logger
	// The first would be requests, on the second bridges talk to each other.
	r.never = []string{o.Prefix + ".", peers.Inbox(storeID) + "."}
	for _, pattern := range o.ReplySubjects {
		if err := subjects.CheckPattern(pattern); err != nil {
			return fmt.Errorf("reply subjects: %w", err)
		}
	}
	r.more = o.ReplySubjects
	return nil
}

// answers says whether a reply subject is one that is answered.
func (r *replies) answers(subject string) bool {
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

// refuse takes the reply subject from a message and says why. The operator is
// told of one of them now and then: it may be a client's own inbox prefix.
func (r *replies) refuse(m *nats.Msg) *failure {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now := time.Now(); now.Sub(r.warned) > logEvery {
		r.warned = now
		r.log.Warn("refused a request: its reply subject is neither an inbox nor an allowed reply subject", "subject", shown(m.Subject), "reply", shown(m.Reply))
	}
	f := failf(403, "reply subject %s: expected an inbox, in _INBOX.> or where else the bridge is set to answer", shown(m.Reply))
	m.Reply = ""
	return f
}
