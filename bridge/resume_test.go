package bridge_test

import (
	"bytes"
	"net"
	"sync"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/bridge"
	"github.com/pqbridge/pqbridge/testenv"
)

// lateFlush is a way to a server that can hold up the server's answer to a flush. Messages
// overtake it.
type lateFlush struct {
	mu   sync.Mutex
	hold bool
	held chan func() // passes the answer on
}

// Dial implements nats.CustomDialer.
func (l *lateFlush) Dial(network, address string) (net.Conn, error) {
	server, err := net.Dial(network, address)
	if err != nil {
		return nil, err
	}
	client, passed := net.Pipe()
	go l.pass(server, passed)
	return &lateConn{Conn: server, from: client}, nil
}

// lateConn writes to the server, and reads what is passed on.
type lateConn struct {
	net.Conn
	from net.Conn
}

func (c *lateConn) Read(b []byte) (int, error) { return c.from.Read(b) }

func (c *lateConn) Close() error {
	_ = c.from.Close() // a pipe: its end has no error
	return c.Conn.Close()
}

func (l *lateFlush) pass(server, to net.Conn) {
	pong := []byte("PONG\r\n")
	for buffer := make([]byte, 1<<16); ; {
		n, err := server.Read(buffer)
		sent := buffer[:n]
		l.mu.Lock()
		if l.hold && bytes.Contains(sent, pong) {
			l.hold = false
			sent = bytes.Replace(sent, pong, nil, 1)
			l.held <- func() { _, _ = to.Write(pong) } // a connection that has ended needs no answer
		}
		l.mu.Unlock()
		if _, err := to.Write(sent); err != nil {
			return
		}
		if err != nil {
			_ = to.Close()
			return
		}
	}
}

// A bridge that leaves standby lets pops wait from the moment in which it has them.
func TestPopWaitsWhileTheBridgeLeavesStandby(t *testing.T) {
	t.Parallel()
	late := &lateFlush{held: make(chan func(), 1)}
	env := &testenv.Bridged{NATS: testenv.NATS(t), Store: testenv.Store(t)}
	nc := env.NATS.Connect(t, append(bridge.ConnectOptions(nil), nats.SetCustomDialer(late))...)
	var err error
	if env.Bridge, err = bridge.Start(t.Context(), nc, env.Store, chosen(nil)); err != nil {
		t.Fatal(err)
	}
	c := &client{TB: t, Conn: env.NATS.Connect(t), env: env}
	t.Cleanup(func() { c.drain(env.Bridge) })
	if err := bridge.EnterStandby(t.Context(), env.Bridge); err != nil {
		t.Fatal(err)
	}

	late.mu.Lock()
	late.hold = true
	late.mu.Unlock()
	left := make(chan error, 1)
	go func() { left <- bridge.LeaveStandby(env.Bridge) }()
	passOn := <-late.held // the server has the subscriptions
	pop := c.send("pq.jobs.pop.min", "", "PQ-Wait", "100s")
	if err := c.Flush(); err != nil {
		t.Fatal(err)
	}
	c.waiting("jobs", 1)
	passOn()
	if err := <-left; err != nil {
		t.Fatal(err)
	}
	c.push("pq.jobs.push", "x")
	if m := c.next(pop); string(m.Data) != "x" {
		t.Errorf("%q, %v", m.Data, m.Header)
	}
}
