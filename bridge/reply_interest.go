package bridge

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
)

// replyInterest finds out whether a client still listens for its answer. A waiting
// pop may outlive its client by two minutes, and an item that is popped without a
// lease and sent to a client that has gone is lost.
//
// The question is a message to the reply subject that the server traces and does not
// deliver. Its own reply subject is one of the bridge. When the message finds no
// subscriber, the server says so there before it answers the flush that follows.
// Then a second question asks for the trace: it names clients behind a server that
// cannot trace, although the message is not delivered to them.
//
// A server older than version 2.11 would deliver the question, so it is not asked. A
// client without an answer about it counts as listening.
type replyInterest struct {
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
	// interestPatience bounds each wait for the server. A transaction waits meanwhile.
	interestPatience = 2 * time.Second

	// interestBuffer is how many answers of the server may wait to be read.
	interestBuffer = 1 << 14
)

// Headers that have a server trace a message instead of delivering it.
const (
	headerTraceDest = "Nats-Trace-Dest"
	headerTraceOnly = "Nats-Trace-Only"
)

// mappedReplies begin the reply subjects that the server maps to other accounts or
// clusters. It forgets a mapping after one message, a traced one included.
var mappedReplies = [...]string{"_R_.", "_GR_.", "$GR."}

func (r *replyInterest) init(nc *nats.Conn, log *slog.Logger) {
	r.nc, r.log, r.inbox, r.patience = nc, log, nc.NewInbox(), interestPatience
	r.answers = make(chan *nats.Msg, interestBuffer)
	r.refused = make(map[string]bool)
}

// gone returns the reply subjects without a listener.
func (r *replyInterest) gone(replies []string) (gone []string) {
	var ask []string
	for _, reply := range replies {
		if !mapped(reply) {
			ask = append(ask, reply)
		}
	}
	if len(ask) == 0 || !traces(r.nc.ConnectedServerVersion()) {
		return nil
	}
	suspects, err := r.suspects(ask)
	if err == nil && len(suspects) > 0 {
		gone, err = r.untraced(suspects)
	}
	if err != nil {
		r.log.Debug("asking the server whether clients still wait failed", "error", err)
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
func (r *replyInterest) suspects(replies []string) (suspects []string, err error) {
	questions, err := r.open(len(replies))
	if err != nil {
		return nil, err
	}
	defer r.close(questions)
	for i, reply := range replies {
		if err := r.ask(reply, questions[i], r.inbox); err != nil {
			return nil, err
		}
	}
	if err := r.nc.FlushTimeout(r.patience); err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.read()
	for i, reply := range replies {
		if r.refused[questions[i]] {
			suspects = append(suspects, reply)
		}
	}
	return suspects, nil
}

// open returns the reply subjects of n questions.
func (r *replyInterest) open(n int) (questions []string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stopped {
		return nil, errors.New("the bridge has ended")
	}
	if r.sub == nil {
		if r.sub, err = r.nc.ChanSubscribe(r.inbox+".*", r.answers); err != nil {
			return nil, err
		}
	}
	for range n {
		question := r.inbox + "." + rand.Text() // clients that listen to inboxes see only the trace's subject
		r.refused[question] = false
		questions = append(questions, question)
	}
	return questions, nil
}

func (r *replyInterest) close(questions []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, question := range questions {
		delete(r.refused, question)
	}
}

// read reads the server's answers so far, those to questions of other lanes too.
func (r *replyInterest) read() {
	for {
		select {
		case m := <-r.answers:
			if _, open := r.refused[m.Subject]; open && fromServer(m) {
				r.refused[m.Subject] = true
			}
		default:
			return
		}
	}
}

// ask sends a question. The trace goes to dest.
func (r *replyInterest) ask(reply, question, dest string) error {
	return r.nc.PublishMsg(&nats.Msg{Subject: reply, Reply: question, Header: nats.Header{
		headerTraceDest: {dest},
		headerTraceOnly: {"true"},
	}})
}

// untraced returns the reply subjects with a trace that leads nowhere.
func (r *replyInterest) untraced(replies []string) (gone []string, err error) {
	inbox := r.nc.NewInbox()
	sub, err := r.nc.SubscribeSync(inbox + ".*")
	if err != nil {
		return nil, err
	}
	defer func() { _ = sub.Unsubscribe() }() // fails when the connection is closed
	open := make(map[string]string)          // replies by where their traces go
	for _, reply := range replies {
		trace := inbox + "." + rand.Text()
		if err := r.ask(reply, "", trace); err != nil {
			return nil, err
		}
		open[trace] = reply
	}
	for late := time.Now().Add(r.patience); len(open) > 0; {
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

// stop ends the subscription. The server is asked no more.
func (r *replyInterest) stop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stopped = true
	if r.sub == nil {
		return
	}
	if err := r.sub.Unsubscribe(); err != nil {
		r.log.Debug("unsubscribing failed", "subject", r.sub.Subject, "error", err)
	}
	r.sub = nil
}
