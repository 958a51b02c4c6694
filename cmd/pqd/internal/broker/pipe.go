package broker

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/pqbridge/pqbridge/bridge"
)

// pipeDialer connects pqd to the embedded server. By TCP the server would need a system
// call for almost every request, and pqd a certificate if the server requires TLS.
type pipeDialer struct {
	server  *server.Server
	backlog chan struct{}  // gets a value while the server holds far too much for the bridge; nil: messages are not filtered
	floods  *bridge.Floods // of the bridge
	last    *pipe
	shed    atomic.Pointer[time.Time] // when the bridge refused a large message unread, the last time; nil: it did not
}

// shedsFor is how long the bridge counts as shedding behind the last large message that it refused unread: for some heartbeats, so
// that the other nodes hear of it. What they keep back meanwhile may be why no further one came.
const shedsFor = 300 * time.Millisecond

// sheds reports whether the bridge refuses large messages unread.
func (d *pipeDialer) sheds() bool {
	last := d.shed.Load()
	return last != nil && time.Since(*last) < shedsFor
}

// noteShed notes that the bridge refused a large message unread.
func (d *pipeDialer) noteShed() {
	now := time.Now()
	d.shed.Store(&now)
}

// newPipeDialer returns a dialer whose connections get each message whole.
func newPipeDialer(srv *server.Server) *pipeDialer { return &pipeDialer{server: srv} }

// newBridgePipeDialer returns a dialer for the bridge. Its connections get messages that
// the bridge would refuse without their content, so as not to fall behind.
func newBridgePipeDialer(srv *server.Server) *pipeDialer {
	return &pipeDialer{server: srv, backlog: make(chan struct{}, 1), floods: new(bridge.Floods)}
}

// InProcessConn implements nats.InProcessConnProvider. One connection calls it, never twice
// at the same time.
func (d *pipeDialer) InProcessConn() (net.Conn, error) {
	if d.last != nil {
		// nats.go leaves a connection whose login was refused to the garbage
		// collector, which does not take a pipe.
		_ = d.last.Close()
	}
	conn, err := d.server.InProcessConn()
	if err != nil {
		return nil, err
	}
	d.last = newPipe(conn)
	if d.backlog == nil {
		return d.last, nil
	}
	varz, err := d.server.Varz(nil)
	if err != nil {
		return nil, fmt.Errorf("ask the embedded NATS server for its limits: %w", err)
	}
	d.last.messages = &messageFilter{from: conn, floods: d.floods, shed: d.noteShed, behind: func(info []byte, size int) bool {
		held := d.pending(info) - int64(size)
		if held > varz.MaxPending/backlogPart {
			select {
			case d.backlog <- struct{}{}:
			default: // said already
			}
		}
		return held > varz.MaxPending/pendingPart
	}}
	return d.last, nil
}

// Parts of max_pending. The rest is for messages that clients send while the bridge gets no processor. And the
// server counts a batch of messages as pending until the bridge has read all of it.
const (
	// Beyond pendingPart the bridge refuses large messages unread.
	pendingPart = 16

	// Beyond backlogPart it unsubscribes: on a busy machine, clients can send more than
	// the bridge can skip.
	backlogPart = 8
)

// pending is how many bytes the server holds for the connection of that INFO, or 0 if the
// connection is closed.
func (d *pipeDialer) pending(info []byte) int64 {
	var connection struct {
		ID uint64 `json:"client_id"`
	}
	if err := json.Unmarshal(bytes.TrimPrefix(info, []byte("INFO ")), &connection); err != nil {
		return 0
	}
	found, err := d.server.Connz(&server.ConnzOptions{CID: connection.ID})
	if err != nil || len(found.Conns) == 0 {
		return 0
	}
	return int64(found.Conns[0].Pending)
}

// pipe is pqd's end of a pipe to the server. It buffers writes, as a socket
// does. The server's own pipes have no buffer: a write blocks until it is read. nats.go
// writes CONNECT and PING before it reads, and a server that refuses CONNECT never
// reads the PING, so both would block for ever.
type pipe struct {
	net.Conn
	messages io.Reader // from the server: Conn, or a filter before it

	mu      sync.Mutex
	changed sync.Cond
	held    []byte // written, not yet sent to the server
	spare   []byte
	closed  bool
	err     error // of sending; the held bytes are lost
}

const (
	// pipeRoom is how many bytes are held before a write blocks. One write may be
	// longer.
	pipeRoom = 256 << 10

	// pipeReconnectWait is the time between two attempts to connect to the embedded server.
	pipeReconnectWait = 10 * time.Millisecond

	// pipeLinger bounds how long a closed pipe still sends the held bytes.
	pipeLinger = time.Second
)

func newPipe(conn net.Conn) *pipe {
	p := &pipe{Conn: conn, messages: conn}
	p.changed.L = &p.mu
	go p.passOn()
	return p
}

// Read implements net.Conn.
func (p *pipe) Read(b []byte) (int, error) { return p.messages.Read(b) }

// Write implements net.Conn.
func (p *pipe) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.held) > 0 && len(p.held)+len(b) > pipeRoom && !p.closed && p.err == nil {
		p.changed.Wait()
	}
	switch {
	case p.err != nil:
		return 0, p.err
	case p.closed:
		return 0, net.ErrClosed
	}
	p.held = append(p.held, b...)
	p.changed.Broadcast()
	return len(b), nil
}

// Close implements net.Conn. The pipe still sends the bytes written before, for as long as
// the server reads them, up to pipeLinger. Reads end at once.
func (p *pipe) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return net.ErrClosed
	}
	p.closed = true
	p.changed.Broadcast()
	time.AfterFunc(pipeLinger, func() { _ = p.Conn.Close() })
	return p.Conn.SetReadDeadline(time.Now())
}

// passOn sends written bytes to the server until either side closes the pipe.
func (p *pipe) passOn() {
	defer func() { _ = p.Conn.Close() }() // closing a net.Pipe does not fail
	for {
		b := p.next()
		if b == nil {
			return
		}
		_, err := p.Conn.Write(b)
		p.passed(b, err)
	}
}

// next waits for bytes to send. It returns nil when the pipe is closed and all are sent.
func (p *pipe) next() []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.held) == 0 && !p.closed && p.err == nil {
		p.changed.Wait()
	}
	if p.err != nil || len(p.held) == 0 {
		return nil
	}
	b := p.held
	p.held, p.spare = p.spare, nil
	p.changed.Broadcast() // there is room
	return b
}

func (p *pipe) passed(b []byte, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if cap(b) <= 2*pipeRoom { // or else a large message would stay for good
		p.spare = b[:0]
	}
	p.err = err
	p.changed.Broadcast()
}
