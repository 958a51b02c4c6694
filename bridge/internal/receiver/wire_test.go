package receiver_test

import (
	"errors"
	"net"
	"regexp"
	"strings"
	"sync"

	"github.com/nats-io/nats.go"
)

// wire is the way between a receiver and its server. It can hold up what the server sends,
// and knows what the receiver has sent.
type wire struct {
	mu   sync.Mutex
	held chan struct{} // nil: nothing is held up
	lost bool
	conn net.Conn // the last one
	sent strings.Builder
}

// wired has a station's receiver connect by a wire.
func (w *wire) wired(s *station) { s.connect = append(s.connect, nats.SetCustomDialer(w)) }

// Dial implements nats.CustomDialer.
func (w *wire) Dial(network, address string) (net.Conn, error) {
	conn, err := net.Dial(network, address)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.conn = conn; w.lost && err == nil {
		err = errors.Join(net.ErrClosed, conn.Close())
	}
	return &wiredConn{conn, w}, err
}

type wiredConn struct {
	net.Conn
	w *wire
}

func (c *wiredConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.w.mu.Lock()
	held := c.w.held
	c.w.mu.Unlock()
	if held != nil {
		<-held
	}
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	if c.w.lost {
		return 0, net.ErrClosed
	}
	return n, err
}

func (c *wiredConn) Write(b []byte) (int, error) {
	c.w.mu.Lock()
	c.w.sent.Write(b)
	c.w.mu.Unlock()
	return c.Conn.Write(b)
}

// hold holds up what the server sends, until release is called.
func (w *wire) hold() (release func()) {
	held := make(chan struct{})
	w.mu.Lock()
	defer w.mu.Unlock()
	w.held = held
	return sync.OnceFunc(func() {
		w.mu.Lock()
		w.held = nil
		w.mu.Unlock()
		close(held)
	})
}

// lose loses the connection for good, with all that is held up.
func (w *wire) lose() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lost = true
	close(w.held)
	w.held = nil
	return w.conn.Close()
}

// pingsBehind is how many pings the receiver has sent after a text.
func (w *wire) pingsBehind(text string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, behind, _ := strings.Cut(w.sent.String(), text)
	return strings.Count(behind, "PING\r\n")
}

var (
	subscribes   = regexp.MustCompile(`(?m)^SUB (\S+) +(?:\S+ )?(\d+)\r$`)
	unsubscribes = regexp.MustCompile(`(?m)^UNSUB (\d+)`)
)

// ends returns the subjects of the subscriptions that the receiver has ended, in order,
// once each.
func (w *wire) ends() (subjects []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	of := make(map[string]string)
	for _, sub := range subscribes.FindAllStringSubmatch(w.sent.String(), -1) {
		of[sub[2]] = sub[1]
	}
	for _, unsub := range unsubscribes.FindAllStringSubmatch(w.sent.String(), -1) {
		if subject, ok := of[unsub[1]]; ok {
			subjects = append(subjects, subject)
			delete(of, unsub[1])
		}
	}
	return subjects
}

// begins returns the subjects of all subscriptions, in order.
func (w *wire) begins() (subjects []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, sub := range subscribes.FindAllStringSubmatch(w.sent.String(), -1) {
		subjects = append(subjects, sub[1])
	}
	return subjects
}
