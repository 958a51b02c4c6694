package testenv

import (
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/url"
	"slices"
	"sync"
	"testing"
	"time"
)

// Proxy is a network between clients and a server. It passes on bytes, and loses or delays
// connections and bytes at the request of a test.
type Proxy struct {
	listener net.Listener
	timers   sync.WaitGroup // troubles that have not passed
	calm     chan struct{}  // closed when every trouble is to end now
	end      func()

	mu      sync.Mutex
	target  string   // of new connections; "": no server
	blocked bool     // connections end as soon as they begin
	relays  []*relay // in the order of their beginning
	ways    *Ways    // that bytes take; nil: none
	source  net.Addr // of connections to the server; nil: any
	mute    int      // troubles during which new connections are accepted and get no bytes
}

// NewProxy starts a proxy in front of the NATS server at this URL. It is taken
// down when the test ends.
func NewProxy(t testing.TB, server string) *Proxy {
	t.Helper()
	at, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	return newProxy(t, at.Host)
}

// newProxy starts a proxy in front of a TCP server, whose address may be found out
// later.
func newProxy(t testing.TB, target string) *Proxy {
	t.Helper()
	p := &Proxy{target: target}
	p.begin(t, "127.0.0.1:0")
	return p
}

// begin has the proxy listen until the test ends.
func (p *Proxy) begin(t testing.TB, address string) {
	t.Helper()
	p.calm = make(chan struct{})
	p.end = sync.OnceFunc(func() { close(p.calm) })
	var err error
	if p.listener, err = net.Listen("tcp", address); err != nil {
		t.Fatal(err)
	}
	var accepting sync.WaitGroup
	accepting.Go(p.accept)
	t.Cleanup(func() {
		p.Calm()
		if err := p.listener.Close(); err != nil {
			t.Errorf("close the proxy: %v", err)
		}
		accepting.Wait()
		p.Cut()
	})
}

// URL is the address for clients.
func (p *Proxy) URL() string { return "nats://" + p.listener.Addr().String() }

// Calm ends all troubles for good, and waits for their end.
func (p *Proxy) Calm() {
	p.end()
	p.timers.Wait()
}

// Distance delays bytes of new connections by way in each direction, up to the number of bytes that may be under
// way.
func (p *Proxy) Distance(way time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ways = &Ways{way: way}
}

// Cut cuts all connections.
func (p *Proxy) Cut() {
	for _, l := range p.all() {
		l.cut(false)
	}
}

// aim makes new connections lead to another server.
func (p *Proxy) aim(target string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.target = target
}

// Block cuts all connections, and new ones as soon as they begin, until it is
// called with false.
func (p *Proxy) Block(blocked bool) {
	p.mu.Lock()
	p.blocked = blocked
	p.mu.Unlock()
	if blocked {
		p.Cut()
	}
}

// Silence loses everything on the present connections, in both directions, until Calm. It
// also hides the end of one side from the other.
func (p *Proxy) Silence() {
	for _, l := range p.all() {
		l.up.lose()
		l.down.lose()
		p.timers.Go(func() {
			<-p.calm
			l.cut(false)
		})
	}
}

// LoseAnswers loses the server's bytes on the present connections. Cut these connections afterwards: TCP cannot go
// on behind lost bytes.
func (p *Proxy) LoseAnswers() {
	for _, l := range p.all() {
		l.down.lose()
	}
}

// HoldAnswers keeps the server's bytes on the present connections on their way until release.
func (p *Proxy) HoldAnswers() (release func()) {
	relays := p.all()
	for _, l := range relays {
		l.down.hold()
	}
	return func() {
		for _, l := range relays {
			l.down.release()
		}
	}
}

func (p *Proxy) all() []*relay {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.relays)
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return // closed
		}
		p.mu.Lock()
		mute, target, blocked, ways := p.mute > 0, p.target, p.blocked, p.ways
		p.mu.Unlock()
		l := newRelay(client)
		l.ways = ways
		if blocked || target == "" {
			l.cut(true)
			continue
		}
		if !mute {
			// A client sees the same as without a proxy: the connection ends.
			if l.server, err = (&net.Dialer{LocalAddr: p.source}).Dial("tcp", target); err != nil {
				l.cut(true)
				continue
			}
		}
		p.mu.Lock()
		p.relays = append(p.relays, l)
		blocked = p.blocked
		p.mu.Unlock()
		if blocked { // since the connection began
			l.cut(true)
		}
		go func() {
			l.serve()
			p.mu.Lock()
			defer p.mu.Unlock()
			p.relays = slices.DeleteFunc(p.relays, func(other *relay) bool { return other == l })
		}()
	}
}

// troubles are the longest durations of the kinds of trouble. Kinds that are not listed
// have none.
var troubles = map[string]time.Duration{"delay": 2 * time.Second, "one direction lost": 3 * time.Second, "half-open": 3 * time.Second}

// Trouble makes a random trouble on a random connection, and returns its name. Some
// troubles last beyond its return.
func (p *Proxy) Trouble(random *rand.Rand) string {
	what := []string{"cut", "cut", "cut within a message", "delay", "delay", "one direction lost", "half-open", "all cut"}[random.IntN(8)]
	toServer, reset, share, bytes := random.IntN(2) == 0, random.IntN(2) == 0, random.Float64(), random.IntN(200)
	relays := p.all()
	if what == "all cut" || len(relays) == 0 {
		for _, l := range relays {
			l.cut(reset)
		}
		return "all cut"
	}
	l := relays[random.IntN(len(relays))]
	direction := &l.down
	if toServer {
		direction = &l.up
	}
	// after ends a trouble when its time is over, at Calm, or when ended is closed.
	after := func(ended <-chan struct{}, end func()) {
		over := time.NewTimer(time.Duration(share * float64(troubles[what])))
		p.timers.Go(func() {
			defer over.Stop()
			select {
			case <-over.C:
			case <-p.calm:
			case <-ended:
			}
			end()
		})
	}
	switch what {
	case "cut":
		l.cut(reset)
	case "cut within a message":
		direction.cutAfter(bytes)
	case "delay":
		direction.hold()
		after(l.ended, direction.release)
	case "one direction lost": // TCP cannot go on behind lost bytes
		direction.lose()
		after(l.ended, func() { l.cut(reset) })
	case "half-open":
		p.mu.Lock()
		p.mute++
		p.mu.Unlock()
		l.cut(reset)
		after(nil, func() {
			p.mu.Lock()
			p.mute--
			p.mu.Unlock()
			for _, l := range p.all() {
				if l.server == nil {
					l.cut(reset)
				}
			}
		})
	}
	return what
}

// relay is a connection of a client, with the proxy's connection to the server for it.
type relay struct {
	client, server net.Conn // server is nil if there is none
	up, down       stream
	ways           *Ways // that bytes take; nil: none
	ended          chan struct{}
	end            func(reset bool)
}

func newRelay(client net.Conn) *relay {
	l := &relay{client: client, ended: make(chan struct{})}
	l.up, l.down = newStream(), newStream()
	var once sync.Once
	l.end = func(reset bool) {
		once.Do(func() {
			close(l.ended)
			for _, conn := range []net.Conn{l.client, l.server} {
				if conn == nil {
					continue
				}
				if tcp, is := conn.(*net.TCPConn); is && reset {
					_ = tcp.SetLinger(0) // if it cannot be reset it ends in order
				}
				_ = conn.Close()
			}
		})
	}
	return l
}

// cut ends both connections. A reset also loses the bytes on their way.
func (l *relay) cut(reset bool) { l.end(reset) }

// serve passes on bytes until the connections end.
func (l *relay) serve() {
	defer l.cut(false)
	if l.server == nil {
		_, _ = io.Copy(io.Discard, l.client) // until the client or the proxy ends it
		return
	}
	var both sync.WaitGroup
	both.Go(func() { l.pass(l.client, l.server, &l.up) })
	both.Go(func() { l.pass(l.server, l.client, &l.down) })
	both.Wait()
}

func (l *relay) pass(from io.Reader, to io.Writer, s *stream) {
	defer l.cut(false)
	if l.ways != nil {
		road := l.road(to)
		defer road.Close()
		to = road
	}
	for buffer := make([]byte, 32<<10); ; {
		n, err := from.Read(buffer)
		if err != nil {
			s.awaitEnd(l.ended)
			return
		}
		kept, err := s.admit(buffer[:n], l.ended)
		if _, failed := to.Write(kept); failed != nil || err != nil {
			return
		}
	}
}

// stream is one direction of a relay.
type stream struct {
	mu   sync.Mutex
	flow chan struct{} // closed while bytes pass
	lost bool          // bytes go nowhere
	left int           // how many bytes pass before the relay is cut; negative: all
}

func newStream() stream {
	flow := make(chan struct{})
	close(flow)
	return stream{flow: flow, left: -1}
}

var errCut = errors.New("cut within a message")

// admit waits until bytes may pass, and returns the part that passes. After an error no more bytes pass.
func (s *stream) admit(bytes []byte, ended <-chan struct{}) ([]byte, error) {
	s.mu.Lock()
	flow := s.flow
	s.mu.Unlock()
	select {
	case <-flow:
	case <-ended:
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.lost:
		return nil, nil
	case s.left >= 0 && s.left <= len(bytes):
		return bytes[:s.left], errCut
	case s.left >= 0:
		s.left -= len(bytes)
	}
	return bytes, nil
}

// awaitEnd hides the end of one side from the other while bytes are lost.
func (s *stream) awaitEnd(ended <-chan struct{}) {
	s.mu.Lock()
	lost := s.lost
	s.mu.Unlock()
	if lost {
		<-ended
	}
}

func (s *stream) hold() {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.flow:
		s.flow = make(chan struct{})
	default: // held already
	}
}

func (s *stream) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.flow:
	default:
		close(s.flow)
	}
}

func (s *stream) lose() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lost = true
}

func (s *stream) cutAfter(bytes int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.left = bytes
}
