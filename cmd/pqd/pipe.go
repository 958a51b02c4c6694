package main

import (
	"net"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// pipes connects the bridge to the server of its own process. A connection by
// TCP would need a system call of the server for almost every request, and a
// certificate if it insists on TLS.
type pipes struct{ server *server.Server }

// InProcessConn implements nats.InProcessConnProvider.
func (p pipes) InProcessConn() (net.Conn, error) {
	conn, err := p.server.InProcessConn()
	if err != nil {
		return nil, err
	}
	return newPipe(conn), nil
}

// pipe is the bridge's end of a pipe to the server. The server's pipes have no
// room: what is written has to be read before the writer goes on. A server that
// refuses a login says so and reads no more, and a client that has not yet written all
// that belongs to its login would wait for it, and it for the client. Therefore this
// one has room for what is on its way to the server, as a socket has.
type pipe struct {
	net.Conn

	mu     sync.Mutex
	moved  sync.Cond
	held   []byte // written, but not yet passed on
	spare  []byte
	closed bool
	err    error // why nothing is passed on any more
}

const (
	// pipeRoom is how many bytes are held before a writer has to wait; one write
	// may be longer.
	pipeRoom = 256 << 10

	// pipeLinger is for how long a pipe that was closed goes on passing on what
	// it holds.
	pipeLinger = time.Second
)

func newPipe(conn net.Conn) *pipe {
	p := &pipe{Conn: conn}
	p.moved.L = &p.mu
	go p.passOn()
	return p
}

// Write implements net.Conn.
func (p *pipe) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.held) > 0 && len(p.held)+len(b) > pipeRoom && !p.closed && p.err == nil {
		p.moved.Wait()
	}
	switch {
	case p.err != nil:
		return 0, p.err
	case p.closed:
		return 0, net.ErrClosed
	}
	p.held = append(p.held, b...)
	p.moved.Broadcast()
	return len(b), nil
}

// Close implements net.Conn. What was written before is passed on, as far as the
// server reads it.
func (p *pipe) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return net.ErrClosed
	}
	p.closed = true
	p.moved.Broadcast()
	return p.Conn.SetWriteDeadline(time.Now().Add(pipeLinger))
}

// passOn passes on what is written until the pipe is closed or the server has
// closed it.
func (p *pipe) passOn() {
	for {
		b := p.next()
		if b == nil {
			_ = p.Conn.Close() // a net.Pipe, which has nothing to say to that
			return
		}
		_, err := p.Conn.Write(b)
		p.mu.Lock()
		p.spare, p.err = b[:0], err
		p.moved.Broadcast()
		p.mu.Unlock()
	}
}

// next waits for something to pass on. It returns nil when that is all.
func (p *pipe) next() []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.held) == 0 && !p.closed && p.err == nil {
		p.moved.Wait()
	}
	if p.err != nil || len(p.held) == 0 {
		return nil
	}
	b := p.held
	p.held, p.spare = p.spare, nil
	return b
}
