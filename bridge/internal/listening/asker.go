// Package listening finds out whether anybody listens for an answer.
//
// A pop that waits may outlive its client by two minutes. While it waits, and before it takes
// an item without a lease, the server is asked: see [Asker]. An answer with a lease needs no
// question. When no client receives it, the server says so on the ack subject ([Unreceived]),
// and the lease is given back. The ack subject of a bundle has no room for all its leases, so
// [Sent] remembers them for a moment.
//
// The package knows neither requests nor the store.
package listening

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/protocol"
)

// Asker asks the server whether clients listen.
//
// The question is a message to the reply subject that the server traces and does not
// deliver. Its own reply subject is one of the bridge. When the message finds no
// subscriber, the server says so there before it answers the flush that follows.
// Then a second question asks for the trace: it names clients behind a server that
// cannot trace, although the message is not delivered to them.
//
// A server older than version 2.11 would deliver the question, so it is not asked. A
// client without an answer about it counts as listening.
type Asker struct {
	nc       *nats.Conn
	log      *slog.Logger
	inbox    string
	patience time.Duration

	mu      sync.Mutex
	sub     *nats.Subscription // nil until the first question
	answers chan *nats.Msg     // of the server
	refused map[string]bool    // by question under way: it found no subscriber
	stopped bool
}

const (
	// Patience bounds each wait for the server. A transaction waits meanwhile.
	Patience = 2 * time.Second

	// buffer is how many answers of the server may wait to be read.
	buffer = 1 << 14
)

// Headers that have a server trace a message instead of delivering it.
const (
	headerTraceDest = "Nats-Trace-Dest"
	headerTraceOnly = "Nats-Trace-Only"
)

// mappedReplies begin the reply subjects that the server maps to other accounts or
// clusters. It forgets a mapping after one message, a traced one included.
var mappedReplies = [...]string{"_R_.", "_GR_.", "$GR."}

// NewAsker returns an asker that has asked nothing yet.
func NewAsker(nc *nats.Conn, log *slog.Logger) *Asker {
	return &Asker{
		nc: nc, log: log, inbox: nc.NewInbox(), patience: Patience,
		answers: make(chan *nats.Msg, buffer), refused: make(map[string]bool),
	}
}

// SetPatience sets another time than Patience, before the first question.
func (a *Asker) SetPatience(d time.Duration) { a.patience = d }

// Gone returns the reply subjects without a listener.
func (a *Asker) Gone(replies []string) (gone []string) {
	var ask []string
	for _, reply := range replies {
		if !mapped(reply) {
			ask = append(ask, reply)
		}
	}
	if len(ask) == 0 || !traces(a.nc.ConnectedServerVersion()) {
		return nil
	}
	suspects, err := a.suspects(ask)
	if err == nil && len(suspects) > 0 {
		gone, err = a.untraced(suspects)
	}
	if err != nil {
		a.log.Debug("asking the server whether clients still wait failed", "error", err)
	}
	return gone
}

func mapped(reply string) bool {
	return slices.ContainsFunc(mappedReplies[:], func(prefix string) bool { return strings.HasPrefix(reply, prefix) })
}

// traces reports whether a server of a version can trace a message without delivering it.
func traces(version string) bool {
	var major, minor int
	_, err := fmt.Sscanf(version, "%d.%d", &major, &minor)
	return err == nil && (major > 2 || major == 2 && minor >= 11)
}

// suspects returns the reply subjects at which a question found no subscriber.
func (a *Asker) suspects(replies []string) (suspects []string, err error) {
	questions, err := a.open(len(replies))
	if err != nil {
		return nil, err
	}
	defer a.close(questions)
	for i, reply := range replies {
		if err := a.ask(reply, questions[i], a.inbox); err != nil {
			return nil, err
		}
	}
	if err := a.nc.FlushTimeout(a.patience); err != nil {
		return nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.read()
	for i, reply := range replies {
		if a.refused[questions[i]] {
			suspects = append(suspects, reply)
		}
	}
	return suspects, nil
}

// open returns the reply subjects of n questions.
func (a *Asker) open(n int) (questions []string, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.stopped {
		return nil, errors.New("the bridge has ended")
	}
	if a.sub == nil {
		if a.sub, err = a.nc.ChanSubscribe(a.inbox+".*", a.answers); err != nil {
			return nil, err
		}
	}
	for range n {
		question := a.inbox + "." + rand.Text() // clients that listen to inboxes see only the trace's subject
		a.refused[question] = false
		questions = append(questions, question)
	}
	return questions, nil
}

func (a *Asker) close(questions []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, question := range questions {
		delete(a.refused, question)
	}
}

// read reads the server's answers so far, those to questions of other lanes too.
func (a *Asker) read() {
	for {
		select {
		case m := <-a.answers:
			if _, open := a.refused[m.Subject]; open && Unreceived(m) {
				a.refused[m.Subject] = true
			}
		default:
			return
		}
	}
}

// ask sends a question. The trace goes to dest.
func (a *Asker) ask(reply, question, dest string) error {
	return a.nc.PublishMsg(&nats.Msg{Subject: reply, Reply: question, Header: nats.Header{
		headerTraceDest: {dest},
		headerTraceOnly: {"true"},
	}})
}

// untraced returns the reply subjects with a trace that leads nowhere.
func (a *Asker) untraced(replies []string) (gone []string, err error) {
	inbox := a.nc.NewInbox()
	sub, err := a.nc.SubscribeSync(inbox + ".*")
	if err != nil {
		return nil, err
	}
	defer func() { _ = sub.Unsubscribe() }() // fails when the connection is closed
	open := make(map[string]string)          // replies by where their traces go
	for _, reply := range replies {
		trace := inbox + "." + rand.Text()
		if err := a.ask(reply, "", trace); err != nil {
			return nil, err
		}
		open[trace] = reply
	}
	for late := time.Now().Add(a.patience); len(open) > 0; {
		m, err := sub.NextMsg(time.Until(late))
		if err != nil {
			return gone, err
		}
		// The first message there is the server's: nobody knew the subject before.
		if reply, is := open[m.Subject]; is && leadsNowhere(m.Data) {
			gone = append(gone, reply)
		}
		delete(open, m.Subject)
	}
	return gone, nil
}

// leadsNowhere reports whether a trace shows nothing but the arrival of a message at the
// server: no delivery, not even one that was left out.
func leadsNowhere(trace []byte) bool {
	var seen struct {
		Events []struct {
			Type string `json:"type"`
		} `json:"events"`
	}
	if json.Unmarshal(trace, &seen) != nil {
		return false
	}
	for _, event := range seen.Events {
		if event.Type != "in" && event.Type != "sm" { // arrival, subject mapping
			return false
		}
	}
	return len(seen.Events) > 0
}

// Stop ends the subscription. The server is asked no more.
func (a *Asker) Stop() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.stopped = true
	if a.sub == nil {
		return
	}
	if err := a.sub.Unsubscribe(); err != nil {
		a.log.Debug("unsubscribing failed", "subject", a.sub.Subject, "error", err)
	}
	a.sub = nil
}

// Unreceived reports whether a message on a subject for replies comes from the server, because
// no client received what was to be answered there. A client that asks for an answer is no server.
func Unreceived(m *nats.Msg) bool {
	return m.Reply == "" && len(m.Header) > 0 && protocol.NoResponders(m.Header.Get(protocol.HeaderStatus), m.Data)
}
