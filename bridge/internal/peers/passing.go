package peers

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
)

// passing passes requests on to other bridges. A bridge that gets a message with requests answers at once that it
// has taken them, and serves them. Requests that arrive until then form the next message, so a busy bridge gets few
// large messages.
//
// Requests that were sent are never served here, whatever anybody says: the other bridge may have them. A message
// without an answer is repeated unchanged, and is taken once. It is given up when it is too old to be taken.
type passing struct {
	nc      *nats.Conn
	id      string
	between string // prefix of the subjects between bridges
	sealer  passSealer
	answers sealer
	now     func() time.Duration
	log     *slog.Logger
	handle  Handlers
	clear   func(id string) // nothing is under way any more to a bridge that leaves

	passed, taken atomic.Int64

	mu    sync.Mutex
	to    map[string]*target      // by bridge, while something is under way to it
	open  map[time.Duration]*sent // not answered yet, by their times
	last  time.Duration           // of the last message
	count int                     // of the requests that wait or have no answer yet
	empty chan struct{}           // gets a value when there are none

	heard memory // of messages with requests; used by one goroutine
}

// target is a bridge to which requests are passed on.
type target struct {
	waiting []*nats.Msg
	bytes   int  // of the requests that wait or have no answer yet
	left    bool // the bridge waits to hear that nothing is under way
}

// sent is a message with requests.
type sent struct {
	to       string
	at       time.Duration // which identifies the message: times differ
	requests []*nats.Msg
	data     []byte
}

const (
	// maxPassed bounds a request that is passed on, messageBytes a message with several.
	maxPassed    = 16 << 10
	messageBytes = 64 << 10

	// maxOpen bounds the bytes that wait for a bridge, or for its answer. A bridge that reads too slowly gets no
	// more.
	maxOpen = 1 << 20

	// passedAge is the greatest age of a message that a bridge takes, takenPatience the longest wait for an answer.
	// Processes agree on store time to within a second, so a message that is given up was taken by then, or never
	// will be.
	passedAge     = 3 * time.Second
	takenPatience = 4 * time.Second

	// Passing is how long a request that was passed on may be on its way.
	Passing = takenPatience
)

func (p *passing) init(nc *nats.Conn, self Identity, store Store, answers sealer, log *slog.Logger, handle Handlers, clear func(string)) {
	p.nc, p.id, p.between, p.now, p.log = nc, self.ID, self.between(), store.Time, log
	p.handle, p.clear = handle, clear
	p.sealer, p.answers = newPassSealer(store.Secret), answers
	p.to, p.open, p.empty = make(map[string]*target), make(map[time.Duration]*sent), make(chan struct{}, 1)
	p.heard.last = make(map[string]time.Duration)
}

// inbox is the subject on which a bridge gets requests of others.
func (p *passing) inbox(id string) string { return p.between + ".to." + id }

// answersTo is the prefix of the subjects on which a bridge hears the results of its own messages. The id of the
// asked bridge follows.
func (p *passing) answersTo(id string) string { return p.between + "." + answerTo(id) + "." }

// add passes a request on, unless it is too large or the other bridge is behind.
func (p *passing) add(to string, m *nats.Msg) bool {
	size := m.Size()
	if size > min(maxPassed, p.room()) {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	t := p.to[to]
	if t == nil {
		t = &target{}
		p.to[to] = t
		go p.send(to)
	} else if t.bytes+size > maxOpen {
		return false
	}
	t.bytes += size
	t.waiting = append(t.waiting, m)
	p.count++
	return true
}

// room is how many bytes of requests a message may have.
func (p *passing) room() int { return min(messageBytes, int(p.nc.MaxPayload()/2)) }

// send sends the next message to a bridge, if requests wait.
func (p *passing) send(to string) {
	now := p.now()
	p.mu.Lock()
	s := &sent{to: to, requests: p.to[to].next(p.room())}
	if len(s.requests) == 0 {
		p.mu.Unlock()
		p.end(s)
		return
	}
	p.last = max(p.last+1, now)
	s.at = p.last
	p.mu.Unlock()
	s.data = p.sealer.seal(to, passed{from: p.id, at: s.at, requests: s.requests})
	p.mu.Lock()
	p.open[s.at] = s
	p.mu.Unlock()
	p.publish(s)
}

// publish sends a message. A failure changes nothing: the message is repeated.
func (p *passing) publish(s *sent) {
	if err := p.nc.PublishRequest(p.inbox(s.to), p.answersTo(p.id)+s.to, s.data); err != nil {
		p.log.Debug("passing requests on failed", "error", err)
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

// confirmed notes that a bridge has taken the requests in a message.
func (p *passing) confirmed(by string, at time.Duration) {
	p.mu.Lock()
	s := p.open[at]
	if s == nil || s.to != by {
		p.mu.Unlock()
		return
	}
	delete(p.open, at)
	p.mu.Unlock()
	p.passed.Add(int64(len(s.requests)))
	p.end(s)
}

// end forgets the requests of a message, and begins the next one.
func (p *passing) end(s *sent) {
	p.mu.Lock()
	defer p.mu.Unlock()
	t := p.to[s.to]
	p.forget(t, s.requests)
	if len(t.waiting) > 0 {
		go p.send(s.to)
		return
	}
	delete(p.to, s.to)
	if t.left {
		go p.clear(s.to)
	}
}

// forget notes that requests are no longer under way. p.mu is held.
func (p *passing) forget(t *target, requests []*nats.Msg) {
	for _, m := range requests {
		t.bytes -= m.Size()
	}
	if p.count -= len(requests); p.count == 0 {
		signal(p.empty)
	}
}

// tend repeats messages without an answer, and gives up those that are too old to be taken.
func (p *passing) tend() {
	p.mu.Lock()
	now := p.now()
	var again, late []*sent
	for at, s := range p.open {
		switch age := now - at; {
		case age > takenPatience:
			delete(p.open, at)
			late = append(late, s)
		case age >= announceEvery:
			again = append(again, s)
		}
	}
	p.mu.Unlock()
	for _, s := range again {
		p.publish(s)
	}
	for _, s := range late {
		p.log.Warn("another bridge did not confirm the requests passed to it: their clients get 504, outcome unknown", "bridge", s.to, "requests", len(s.requests))
		for _, m := range s.requests {
			p.handle.Unknown(m)
		}
		p.end(s)
	}
}

// targets are the bridges with something under way.
func (p *passing) targets() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Collect(maps.Keys(p.to))
}

// takeBack serves here the requests that wait for a bridge. Requests that were sent stay with the bridge.
func (p *passing) takeBack(from string) {
	p.mu.Lock()
	t := p.to[from]
	if t == nil {
		p.mu.Unlock()
		return
	}
	waiting := t.waiting
	t.waiting = nil
	p.mu.Unlock()
	for _, m := range waiting {
		p.handle.Serve(m)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.forget(t, waiting)
}

// left takes back the requests that wait for a bridge that leaves. It reports whether nothing is under way to the
// bridge; otherwise the bridge is told later.
func (p *passing) left(id string) bool {
	p.takeBack(id)
	p.mu.Lock()
	defer p.mu.Unlock()
	t := p.to[id]
	if t != nil {
		t.left = true
	}
	return t == nil
}

// settled reports whether no request waits any more.
func (p *passing) settled() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.count == 0
}

// take serves the requests in a message, unless it is a copy or too old. A second message with the same time is a
// repetition, and gets the same answer.
func (p *passing) take(m *nats.Msg) {
	came, ok := p.sealer.open(p.id, m.Data)
	if !ok {
		return
	}
	now := p.now()
	taken := now-came.at <= passedAge && p.heard.hears(came.from, came.at, now)
	if !taken && p.heard.last[came.from] != came.at {
		return
	}
	answer := p.answers.seal(answerTo(came.from), word{kind: wordTaken, at: came.at, id: p.id})
	if err := p.nc.Publish(p.answersTo(came.from)+p.id, answer); err != nil {
		p.log.Debug("answering another bridge failed", "error", err)
	}
	if !taken {
		return
	}
	p.taken.Add(int64(len(came.requests)))
	for _, request := range came.requests {
		p.handle.Serve(request)
	}
}

// passed is a message with requests that a bridge passes on to another one.
//
// It is encrypted for one bridge, with the store's secret. Otherwise every client with permission to publish to
// inboxes could forge such a message, and a client that may listen there could read the leases that requests
// settle. It carries the store time at which it was sent, which differs from message to message, so the other
// bridge recognises a copy.
type passed struct {
	from     string
	at       time.Duration // store time
	requests []*nats.Msg
}

// passSealer encrypts messages with requests.
type passSealer struct{ box }

func newPassSealer(secret []byte) passSealer {
	return passSealer{box{secret: secret, what: "requests"}}
}

// box encrypts the messages of bridges to others on the store.
type box struct {
	secret []byte
	what   string // the kind of message: none can pass for another kind
}

// aead returns the cipher for the messages of a bridge. Each bridge has a key of its own: it uses each store time
// once, as the nonce.
func (b box) aead(from string) cipher.AEAD {
	mac := hmac.New(sha256.New, b.secret)
	mac.Write([]byte(form + " " + b.what + " of " + from))
	block, err := aes.NewCipher(mac.Sum(nil))
	if err != nil {
		panic(err) // a SHA-256 has the length of a key
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		panic(err) // AES has the right block size
	}
	return aead
}

// nonceOf is the nonce of a message: the time, which stands before the sender's id.
func nonceOf(aead cipher.AEAD, sent []byte) []byte {
	nonce := make([]byte, aead.NonceSize())
	copy(nonce[len(nonce)-timeBytes:], sent[:timeBytes])
	return nonce
}

const timeBytes = 8

// seal returns a message to a bridge as it is sent: time, id of the sender, and encrypted the
// requests.
func (s passSealer) seal(to string, p passed) []byte {
	var plain []byte
	for _, m := range p.requests {
		plain = appendText(plain, m.Subject)
		plain = appendText(plain, m.Reply)
		plain = appendText(plain, string(m.Data))
		values := 0
		for _, of := range m.Header {
			values += len(of)
		}
		plain = binary.AppendUvarint(plain, uint64(values))
		for key, of := range m.Header {
			for _, value := range of {
				plain = appendText(appendText(plain, key), value)
			}
		}
	}
	return s.close(to, p.from, p.at, plain)
}

// close returns a message to a bridge, or to all, as it is sent.
func (b box) close(to, from string, at time.Duration, plain []byte) []byte {
	out := binary.BigEndian.AppendUint64(nil, uint64(at))
	out = append(append(out, byte(len(from))), from...)
	aead := b.aead(from)
	return aead.Seal(out, nonceOf(aead, out), plain, []byte(to))
}

// open reads a message that a bridge on this store has sent to the one with the id.
func (s passSealer) open(to string, sent []byte) (p passed, ok bool) {
	var plain []byte
	if p.from, p.at, plain, ok = s.read(to, sent); !ok {
		return p, false
	}
	in := texts{rest: plain}
	for len(in.rest) > 0 {
		m := &nats.Msg{Subject: in.next(), Reply: in.next(), Data: []byte(in.next())}
		for n := in.number(); n > 0 && !in.broken; n-- {
			if m.Header == nil {
				m.Header = make(nats.Header)
			}
			key := in.next()
			m.Header[key] = append(m.Header[key], in.next())
		}
		p.requests = append(p.requests, m)
	}
	return p, !in.broken
}

// read reads a message that close has made.
func (b box) read(to string, sent []byte) (from string, at time.Duration, plain []byte, ok bool) {
	if len(sent) <= timeBytes {
		return "", 0, nil, false
	}
	length := int(sent[timeBytes])
	if length == 0 || length > maxID || len(sent) < timeBytes+1+length {
		return "", 0, nil, false
	}
	at = time.Duration(binary.BigEndian.Uint64(sent))
	from = string(sent[timeBytes+1:][:length])
	aead := b.aead(from)
	plain, err := aead.Open(nil, nonceOf(aead, sent), sent[timeBytes+1+length:], []byte(to))
	return from, at, plain, err == nil
}

func appendText(to []byte, text string) []byte {
	return append(binary.AppendUvarint(to, uint64(len(text))), text...)
}

// texts reads texts and numbers. It is broken when they end too early.
type texts struct {
	rest   []byte
	broken bool
}

func (t *texts) number() uint64 {
	n, size := binary.Uvarint(t.rest)
	if size <= 0 {
		t.broken, t.rest = true, nil
		return 0
	}
	t.rest = t.rest[size:]
	return n
}

func (t *texts) next() string {
	n := t.number()
	if n > uint64(len(t.rest)) {
		t.broken, t.rest = true, nil
		return ""
	}
	text := string(t.rest[:n])
	t.rest = t.rest[n:]
	return text
}
