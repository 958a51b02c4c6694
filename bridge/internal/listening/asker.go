// Package listening finds out whether a client still listens for an answer.
//
// A pop that waits may outlive its client by two minutes. While it waits, and before it takes an item, the bridge
// asks the server: see [Asker]. When an answer with a lease is sent and no client receives it, the server reports
// that on the ack subject ([Unreceived]), and the lease is given back. The ack subject of a bundle has no room for
// all its leases, so [Sent] remembers them for a moment.
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

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/protocol"
)

// Interest returns the subjects, of these, without a subscriber, if the NATS server runs in this process. client is
// the server's number of the connection that would publish there. It reports false if it cannot tell.
type Interest func(client uint64, subjects []string) (gone []string, known bool)

// Asker asks the server whether clients listen.
//
// If the server runs in this process, [Interest] answers at once. Otherwise the question is a message to the reply
// subject that the server traces and does not deliver. The message's own reply subject belongs to the bridge. If
// the message finds no subscriber, the server reports that there before it answers the flush that follows. Then a
// second question asks for the trace: a client behind a server that cannot trace appears in it, although the
// message is not delivered to the client.
//
// A server older than version 2.11 would deliver the question, so it is not asked. A client without an answer about
// it counts as listening.
type Asker struct {
	nc       *nats.Conn
	log      *slog.Logger
	interest Interest // nil: questions are messages
	inbox    string
	patience time.Duration
	brief    time.Duration

	mu      sync.Mutex
	sub     *nats.Subscription // nil until the first question
	answers chan *nats.Msg     // of the server
	refused map[string]bool    // by question under way: it found no subscriber
	sent    uint64             // messages with questions
	flushed uint64             // how many of them the server has answered
	stopped bool
}

const (
	// Patience bounds the wait for the server if no client waits meanwhile.
	Patience = 2 * time.Second

	// Brief bounds it for clients that are about to be served: without an answer by then they count as listening.
	Brief = 100 * time.Millisecond

	// buffer is how many answers of the server may wait to be read.
	buffer = 1 << 14
)

// Headers that make a server trace a message instead of delivering it.
const (
	headerTraceDest = "Nats-Trace-Dest"
	headerTraceOnly = "Nats-Trace-Only"
)

// mappedReplies begin the reply subjects that the server maps to other accounts or
// clusters. It forgets a mapping after one message, a traced one included.
var mappedReplies = [...]string{"_R_.", "_GR_.", "$GR."}

// NewAsker returns an asker that has asked nothing yet. interest may be nil.
func NewAsker(nc *nats.Conn, interest Interest, log *slog.Logger) *Asker {
	return &Asker{
		nc: nc, log: log, interest: interest, inbox: nc.NewInbox(), patience: Patience, brief: Brief,
		answers: make(chan *nats.Msg, buffer), refused: make(map[string]bool),
	}
}

// SetPatience sets another time than Patience and Brief, before the first question.
func (a *Asker) SetPatience(d time.Duration) { a.patience, a.brief = d, d }

// Question is about the listeners at some reply subjects.
type Question struct {
	asker     *Asker
	replies   []string
	questions []string // to the server, by reply subject
	sent      uint64   // Asker.sent, with them
	gone      []string
	err       error // why there is no answer
}

// Ask asks about the listeners at reply subjects. It does not wait. The answers to several questions arrive with
// the answer to the last of them.
func (a *Asker) Ask(replies []string) *Question {
	q := &Question{asker: a}
	for _, reply := range replies {
		if !mapped(reply) {
			q.replies = append(q.replies, reply)
		}
	}
	if len(q.replies) == 0 {
		return q
	}
	if gone, known := a.known(q.replies); known {
		q.gone, q.replies = gone, nil
		return q
	}
	switch {
	case !a.nc.IsConnected():
		q.err = nats.ErrDisconnected
	case !traces(a.nc.ConnectedServerVersion()):
		q.replies = nil // so nobody waits for an answer
	default:
		q.err = q.send()
	}
	return q
}

// Local reports whether the server runs in this process, so that questions cost no message.
func (a *Asker) Local() bool { return a.interest != nil }

// Away reports whether there is no server to ask.
func (a *Asker) Away() bool { return a.interest == nil && !a.nc.IsConnected() }

// known asks a server in this process.
func (a *Asker) known(replies []string) (gone []string, known bool) {
	if a.interest == nil {
		return nil, false
	}
	client, err := a.nc.GetClientID()
	if err != nil {
		return nil, false
	}
	return a.interest(client, replies)
}

// Gone returns the reply subjects without a listener. It waits briefly, and reports false when the server did not answer in
// time.
func (q *Question) Gone() (gone []string, answered bool) { return q.wait(q.asker.brief) }

func (q *Question) wait(patience time.Duration) (gone []string, answered bool) {
	if len(q.questions) > 0 {
		q.asker.wait(q, time.Now().Add(patience))
	}
	if q.err != nil {
		q.asker.log.Debug("asking the server whether clients still wait failed", "error", q.err)
	}
	return q.gone, q.err == nil
}

// Close forgets a question whose answer is not needed. The question may be nil.
func (q *Question) Close() {
	if q != nil && len(q.questions) > 0 {
		q.asker.close(q.questions)
		q.questions = nil
	}
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

// send sends the questions.
func (q *Question) send() (err error) {
	a := q.asker
	if q.questions, err = a.open(len(q.replies)); err != nil {
		return err
	}
	for i, reply := range q.replies {
		if err := a.ask(reply, q.questions[i], a.inbox); err != nil {
			q.Close()
			return err
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.sent++
	q.sent = a.sent
	return nil
}

// wait gets the answer to a question.
func (a *Asker) wait(q *Question, late time.Time) {
	defer q.Close()
	if q.err = a.flush(q.sent, late); q.err != nil {
		return
	}
	if suspects := a.suspects(q); len(suspects) > 0 {
		q.gone, q.err = a.untraced(suspects, late)
	}
}

// flush waits until the server has answered this many questions. A flush for another question that was sent after
// this one serves both.
func (a *Asker) flush(sent uint64, late time.Time) error {
	a.mu.Lock()
	flushed, upTo := a.flushed, a.sent
	a.mu.Unlock()
	if flushed >= sent {
		return nil
	}
	if err := a.nc.FlushTimeout(max(1, time.Until(late))); err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.flushed = max(a.flushed, upTo)
	return nil
}

// suspects returns the reply subjects at which a question found no subscriber.
func (a *Asker) suspects(q *Question) (suspects []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.read()
	for i, reply := range q.replies {
		if a.refused[q.questions[i]] {
			suspects = append(suspects, reply)
		}
	}
	return suspects
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

// read reads the server's answers so far, also to questions of others.
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
func (a *Asker) untraced(replies []string, late time.Time) (gone []string, err error) {
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
	for len(open) > 0 {
		m, err := sub.NextMsg(max(1, time.Until(late)))
		if err != nil {
			return gone, err
		}
		// The first message there is the server's: nobody else knew the subject before.
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

// Unreceived reports whether a message on a reply subject comes from the server, because no client received the
// answer there. A message that asks for an answer comes from a client.
func Unreceived(m *nats.Msg) bool {
	return m.Reply == "" && len(m.Header) > 0 && protocol.NoResponders(m.Header.Get(protocol.HeaderStatus), m.Data)
}

// Sent remembers the leases of the bundles that were sent last, by the last token of their reply subjects. When no
// client has received a bundle, the server names that subject, which has no room for all leases. If the bundle is
// forgotten by then, its leases run out.
type Sent struct {
	mu     sync.Mutex
	leases map[string][]*fdbpq.Lease // without bundles that were taken
	line   []sentBundle              // the oldest first
	count  int                       // of all leases in the line
}

// sentBundle is the place of a bundle in the line. It stays, and counts, until newer bundles need the room, even if
// the bundle was taken: so the line is bounded like its leases.
type sentBundle struct {
	token  string
	leases int
}

// maxLeases is how many leases are remembered: the leases of a longer time than a server takes to report that no client
// was there.
const maxLeases = 1 << 15

// Add remembers the leases of a bundle, at least one, and returns a token that no client can
// guess.
func (s *Sent) Add(leases []*fdbpq.Lease) (token string) {
	token = rand.Text()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.leases == nil {
		s.leases = make(map[string][]*fdbpq.Lease)
	}
	s.leases[token] = leases
	s.line = append(s.line, sentBundle{token, len(leases)})
	for s.count += len(leases); s.count > maxLeases && len(s.line) > 1; s.line = s.line[1:] {
		s.count -= s.line[0].leases
		delete(s.leases, s.line[0].token)
	}
	return token
}

// Take returns the leases of a bundle of a queue once. A token is not valid on the subject of another queue: a
// client that may settle there has no right to this queue.
func (s *Sent) Take(queue, token string) []*fdbpq.Lease {
	s.mu.Lock()
	defer s.mu.Unlock()
	leases := s.leases[token]
	if len(leases) == 0 || leases[0].Queue != queue {
		return nil
	}
	delete(s.leases, token)
	return leases
}
