package peers

import (
	"context"
	"crypto/rand"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/protocol"
)

// passing passes requests on to other bridges. A bridge that gets a message with requests
// answers at once whether it has taken them, and serves them. Requests that arrive until then
// are the next message, so a busy bridge gets few large messages.
type passing struct {
	nc      *nats.Conn
	id      string
	between string // prefix of the subjects between bridges
	answers string // prefix of the subjects on which this bridge is answered
	sealer  passSealer
	now     func() time.Duration
	log     *slog.Logger
	serve   func(*nats.Msg)
	gone    func(id string) // the server says that a bridge has gone

	passed, taken atomic.Int64

	mu    sync.Mutex
	to    map[string]*target // by bridge
	open  map[string]*sent   // not answered yet, by the token of the answer
	last  time.Duration      // when the last message was sealed
	count int                // of the requests that wait, or were sent and not answered
	empty chan struct{}      // gets a value when there are none

	heard memory // of messages with requests; used by one goroutine
}

// target is a bridge that requests are passed on to.
type target struct {
	waiting []*nats.Msg
	bytes   int  // of the requests that wait, or were sent and not answered
	busy    bool // a message is on its way, or its answer
}

// sent is a message with requests.
type sent struct {
	to       string
	requests []*nats.Msg
	at       time.Duration
}

const (
	// maxPassed bounds a request that is passed on, messageBytes a message with several.
	maxPassed    = 16 << 10
	messageBytes = 64 << 10

	// maxOpen bounds the bytes that wait for a bridge, or for its answer. A bridge that is
	// behind with reading gets no more.
	maxOpen = 1 << 20

	// answerPatience is how long a bridge may take to say whether it has taken requests. It is
	// not known then: they must not be served twice.
	answerPatience = 2 * time.Second
)

// declined is the answer of a bridge that has not taken the requests. The answer of one
// that has is empty.
const declined = "-"

const unanswered = "another bridge does not say whether it has taken requests; their clients have to ask again"

func (p *passing) init(nc *nats.Conn, self Identity, store Store, log *slog.Logger, serve func(*nats.Msg), gone func(string)) {
	p.nc, p.id, p.between, p.now, p.log = nc, self.ID, self.between(), store.Time, log
	p.serve, p.gone = serve, gone
	p.answers = p.answersTo(self.ID)
	p.sealer = newPassSealer(store.Secret)
	p.to, p.open, p.empty = make(map[string]*target), make(map[string]*sent), make(chan struct{}, 1)
	p.heard.last = make(map[string]time.Duration)
}

// inbox is the subject on which a bridge gets requests of others.
func (p *passing) inbox(id string) string { return p.between + ".to." + id }

// answersTo is the prefix of the subjects on which it is told what became of its own.
func (p *passing) answersTo(id string) string { return p.between + ".answer." + id + "." }

// add passes a request on, unless it is too large or the other bridge is behind.
func (p *passing) add(to string, m *nats.Msg) bool {
	size := m.Size()
	p.mu.Lock()
	defer p.mu.Unlock()
	t := p.to[to]
	if t == nil {
		t = &target{}
		p.to[to] = t
	}
	if size > min(maxPassed, p.room()) || t.bytes+size > maxOpen {
		return false
	}
	t.bytes += size
	t.waiting = append(t.waiting, m)
	p.count++
	if !t.busy {
		t.busy = true
		go p.send(to)
	}
	return true
}

// room is how many bytes of requests a message may have.
func (p *passing) room() int { return min(messageBytes, int(p.nc.MaxPayload()/2)) }

// send sends the next message to a bridge.
func (p *passing) send(to string) {
	token, now := rand.Text(), p.now()
	p.mu.Lock()
	requests := p.to[to].next(p.room())
	p.last = max(p.last+1, now)
	at := p.last
	p.open[token] = &sent{to: to, requests: requests, at: now}
	p.mu.Unlock()
	data := p.sealer.seal(to, passed{from: p.id, at: at, token: token, requests: requests})
	if err := p.nc.PublishRequest(p.inbox(to), p.answers+token, data); err != nil {
		p.log.Debug("passing requests on failed", "error", err)
		p.answer(token, false, false)
	}
}

// next takes the requests of the next message.
func (t *target) next(room int) []*nats.Msg {
	n, bytes := 0, 0
	for n < len(t.waiting) {
		bytes += t.waiting[n].Size()
		if n > 0 && bytes > room {
			break
		}
		n++
	}
	requests := t.waiting[:n:n]
	if t.waiting = t.waiting[n:]; len(t.waiting) == 0 {
		t.waiting = nil
	}
	return requests
}

// answered handles the answer of a bridge, or that of the server that it has gone.
func (p *passing) answered(m *nats.Msg) {
	token := strings.TrimPrefix(m.Subject, p.answers)
	if gone := protocol.NoResponders(m.Header.Get(protocol.HeaderStatus), m.Data); gone {
		p.answer(token, false, true)
	} else {
		p.answer(token, string(m.Data) != declined, false)
	}
}

// answer ends what began with sending a message. Requests that were not taken are served here.
func (p *passing) answer(token string, taken, gone bool) {
	p.mu.Lock()
	s := p.open[token]
	delete(p.open, token)
	p.mu.Unlock()
	if s == nil {
		return
	}
	if gone {
		p.gone(s.to)
	}
	if taken {
		p.passed.Add(int64(len(s.requests)))
	} else {
		for _, m := range s.requests {
			p.serve(m)
		}
	}
	p.end(s)
}

// end forgets the requests of a message, and begins the next one.
func (p *passing) end(s *sent) {
	p.mu.Lock()
	defer p.mu.Unlock()
	t := p.to[s.to]
	for _, m := range s.requests {
		t.bytes -= m.Size()
	}
	if len(t.waiting) > 0 {
		go p.send(s.to)
	} else {
		delete(p.to, s.to)
	}
	if p.count -= len(s.requests); p.count == 0 {
		select {
		case p.empty <- struct{}{}:
		default:
		}
	}
}

// forget ends the messages that are not answered in time.
func (p *passing) forget() {
	p.mu.Lock()
	now := p.now()
	var late []*sent
	for token, s := range p.open {
		if now-s.at > answerPatience {
			delete(p.open, token)
			late = append(late, s)
		}
	}
	p.mu.Unlock()
	for _, s := range late {
		p.log.Warn(unanswered, "bridge", s.to, "requests", len(s.requests))
		p.end(s)
	}
}

// settle returns when no request waits any more, or when it takes too long.
func (p *passing) settle(ctx context.Context) error {
	late := time.NewTimer(answerPatience)
	defer late.Stop()
	for {
		p.mu.Lock()
		n := p.count
		p.mu.Unlock()
		if n == 0 {
			return nil
		}
		select {
		case <-p.empty:
		case <-late.C:
			p.log.Warn(unanswered, "requests", n)
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// take serves the requests in a message, unless it is a copy or too old.
func (p *passing) take(m *nats.Msg) {
	came, ok := p.sealer.open(p.id, m.Data)
	if !ok {
		return
	}
	answer := p.answersTo(came.from) + came.token
	if !p.heard.hears(came.from, came.at, p.now()) {
		p.tell(answer, declined)
		return
	}
	p.tell(answer, "")
	p.taken.Add(int64(len(came.requests)))
	for _, request := range came.requests {
		p.serve(request)
	}
}

func (p *passing) tell(subject, answer string) {
	if err := p.nc.Publish(subject, []byte(answer)); err != nil {
		p.log.Debug("answering another bridge failed", "error", err)
	}
}
