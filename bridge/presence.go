package bridge

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// presence finds out whether a client still listens for its answer. A waiting
// pop may outlive its client by two minutes, and an item that is taken for good
// and published to nobody is lost.
//
// The question is a message to the reply subject that the server traces and
// delivers to nobody. It has a reply subject of the bridge: there the server
// says, before it answers the flush that follows, that the message found no
// subscriber. Such a client is asked for once more, and the trace read: a client
// behind a server that cannot trace is left out of the delivery, but named.
//
// Nobody is asked by way of a server older than version 2.11, which would deliver
// the question. Whoever cannot be asked, or is not told of in time, is present.
type presence struct {
	nc       *nats.Conn
	log      *slog.Logger
	inbox    string
	patience time.Duration

	mu      sync.Mutex
	sub     *nats.Subscription // nil until the first question
	came    chan *nats.Msg     // what the server says about questions
	asked   uint64             // number of the last question
	refused map[string]bool    // by question under way
	stopped bool
}

const (
	// presencePatience bounds each wait for the server. A transaction waits meanwhile.
	presencePatience = 2 * time.Second

	// presenceRoom is how many words of the server may lie unread.
	presenceRoom = 1 << 14
)

// Headers that have a server trace a message instead of delivering it.
const (
	headerTraceDest = "Nats-Trace-Dest"
	headerTraceOnly = "Nats-Trace-Only"
)

// mappedReplies begin the reply subjects that lead to other accounts or clusters.
// The server forgets where to after one message, a traced one included.
var mappedReplies = [...]string{"_R_.", "_GR_.", "$GR."}

func (p *presence) init(nc *nats.Conn, log *slog.Logger) {
	p.nc, p.log, p.inbox, p.patience = nc, log, nc.NewInbox(), presencePatience
	p.came = make(chan *nats.Msg, presenceRoom)
	p.refused = make(map[string]bool)
}

// gone returns which of the reply subjects nobody listens to.
func (p *presence) gone(replies []string) (gone []string) {
	var ask []string
	for _, reply := range replies {
		if !leadsOut(reply) {
			ask = append(ask, reply)
		}
	}
	if len(ask) == 0 || !p.traces() {
		return nil
	}
	suspects, err := p.suspects(ask)
	if err == nil && len(suspects) > 0 {
		gone, err = p.untraced(suspects)
	}
	if err != nil {
		p.log.Debug("asking the server whether clients still wait failed", "error", err)
	}
	return gone
}

func leadsOut(reply string) bool {
	return slices.ContainsFunc(mappedReplies[:], func(prefix string) bool { return strings.HasPrefix(reply, prefix) })
}

// traces says whether the server can trace a message without delivering it.
func (p *presence) traces() bool {
	var major, minor int
	_, err := fmt.Sscanf(p.nc.ConnectedServerVersion(), "%d.%d", &major, &minor)
	return err == nil && (major > 2 || major == 2 && minor >= 11)
}

// suspects returns the reply subjects of which the server says that it delivers
// nothing there.
func (p *presence) suspects(replies []string) (suspects []string, err error) {
	questions, err := p.open(len(replies))
	if err != nil {
		return nil, err
	}
	defer p.close(questions)
	for i, reply := range replies {
		if err := p.ask(reply, questions[i], p.inbox); err != nil {
			return nil, err
		}
	}
	if err := p.nc.FlushTimeout(p.patience); err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.read()
	for i, reply := range replies {
		if p.refused[questions[i]] {
			suspects = append(suspects, reply)
		}
	}
	return suspects, nil
}

// open returns the reply subjects of n questions.
func (p *presence) open(n int) (questions []string, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopped {
		return nil, errors.New("the bridge has ended")
	}
	if p.sub == nil {
		if p.sub, err = p.nc.ChanSubscribe(p.inbox+".*", p.came); err != nil {
			return nil, err
		}
	}
	for range n {
		p.asked++
		question := p.inbox + "." + strconv.FormatUint(p.asked, 10)
		p.refused[question] = false
		questions = append(questions, question)
	}
	return questions, nil
}

func (p *presence) close(questions []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, question := range questions {
		delete(p.refused, question)
	}
}

// read notes what the server has said so far, about the questions of other lanes too.
func (p *presence) read() {
	for {
		select {
		case m := <-p.came:
			if _, open := p.refused[m.Subject]; open && fromServer(m) {
				p.refused[m.Subject] = true
			}
		default:
			return
		}
	}
}

// ask sends a question. The trace goes to dest.
func (p *presence) ask(reply, question, dest string) error {
	return p.nc.PublishMsg(&nats.Msg{Subject: reply, Reply: question, Header: nats.Header{
		headerTraceDest: {dest},
		headerTraceOnly: {"true"},
	}})
}

// untraced returns the reply subjects to which the server knows no way at all.
func (p *presence) untraced(replies []string) (gone []string, err error) {
	inbox := p.nc.NewInbox()
	sub, err := p.nc.SubscribeSync(inbox + ".*")
	if err != nil {
		return nil, err
	}
	defer func() { _ = sub.Unsubscribe() }() // fails when the connection is closed
	for i, reply := range replies {
		if err := p.ask(reply, "", inbox+"."+strconv.Itoa(i)); err != nil {
			return nil, err
		}
	}
	for range replies {
		m, err := sub.NextMsg(p.patience)
		if err != nil {
			return gone, err
		}
		i, err := strconv.Atoi(strings.TrimPrefix(m.Subject, inbox+"."))
		if err == nil && i >= 0 && i < len(replies) && leadsNowhere(m.Data) {
			gone = append(gone, replies[i])
		}
	}
	return gone, nil
}

// leadsNowhere says whether a trace shows that a message arrived at the server
// and nothing else: no delivery, not even one that was left out.
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

// stop ends the subscription. Nobody is asked any more.
func (p *presence) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stopped = true
	if p.sub == nil {
		return
	}
	if err := p.sub.Unsubscribe(); err != nil {
		p.log.Debug("unsubscribe", "subject", p.sub.Subject, "error", err)
	}
	p.sub = nil
}
