package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// pipeDialer connects the bridge to the server of its own process. A connection
// by TCP would need a system call of the server for almost every request, and a
// certificate if it insists on TLS.
type pipeDialer struct {
	server *server.Server
	last   *pipe
}

// InProcessConn implements nats.InProcessConnProvider. It is called by one
// connection, for one attempt after another.
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
	varz, err := d.server.Varz(nil)
	if err != nil {
		return nil, fmt.Errorf("ask the embedded NATS server for its limits: %w", err)
	}
	d.last.filter.behind = func(info []byte, size int) bool {
		return d.pending(info)-int64(size) > varz.MaxPending/pendingPart
	}
	return d.last, nil
}

// pendingPart is the part of what the server holds at most for a connection, before it
// closes it, from which large messages are left out. The rest is for what clients send
// while the bridge gets no processor, and because the server counts a batch of messages
// as held until all of it is read.
const pendingPart = 16

// pending is how many bytes the server holds for the connection that it described in
// that INFO; 0 if it does not know the connection any more.
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

// pipe is the bridge's end of a pipe to the server. It buffers writes, as a socket
// does. The server's own pipes have no buffer: a write blocks until it is read. nats.go
// writes CONNECT and PING before it reads, and a server that refuses CONNECT never
// reads the PING, so both would block for ever.
type pipe struct {
	net.Conn
	filter messageFilter // of the bytes read

	mu      sync.Mutex
	changed sync.Cond
	held    []byte // written, but not yet passed on
	spare   []byte
	closed  bool
	err     error // that ended passing on, and lost the held bytes
}

const (
	// pipeRoom is how many bytes are held before a write blocks. One write may be
	// longer.
	pipeRoom = 256 << 10

	// pipeReconnectWait lies between two attempts to connect to the embedded server.
	pipeReconnectWait = 10 * time.Millisecond

	// pipeLinger is how long a closed pipe goes on passing on the held bytes.
	pipeLinger = time.Second
)

func newPipe(conn net.Conn) *pipe {
	p := &pipe{Conn: conn, filter: messageFilter{from: conn}}
	p.changed.L = &p.mu
	go p.passOn()
	return p
}

// Read implements net.Conn.
func (p *pipe) Read(b []byte) (int, error) { return p.filter.Read(b) }

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

// Close implements net.Conn. What was written before is passed on, as far as the
// server reads it; nothing is read any more.
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

// passOn passes on what is written until the pipe is closed or the server has
// closed it.
func (p *pipe) passOn() {
	defer func() { _ = p.Conn.Close() }() // a net.Pipe, which has nothing to say to that
	for {
		b := p.next()
		if b == nil {
			return
		}
		_, err := p.Conn.Write(b)
		p.passed(b, err)
	}
}

// next waits for something to pass on. It returns nil when that is all.
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
