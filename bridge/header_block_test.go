package bridge_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/bridge"
	"github.com/pqbridge/pqbridge/testenv"
)

// wire is a client that writes NATS' protocol itself, and so can send what
// client libraries do not.
type wire struct {
	*client
	conn net.Conn
	read *bufio.Reader
}

func (c *client) wire() *wire {
	c.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(c.env.NATS.URL(), "nats://"))
	if err != nil {
		c.Fatal(err)
	}
	c.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(testenv.Patience())); err != nil {
		c.Fatal(err)
	}
	w := &wire{c, conn, bufio.NewReader(conn)}
	w.write(`CONNECT {"verbose":false,"headers":true,"no_responders":true}` + "\r\nPING\r\n")
	for w.line() != "PONG" {
	}
	return w
}

func (w *wire) write(s string) {
	w.Helper()
	if _, err := io.WriteString(w.conn, s); err != nil {
		w.Fatal(err)
	}
}

func (w *wire) line() string {
	w.Helper()
	line, err := w.read.ReadString('\n')
	if err != nil {
		w.Fatal(err)
	}
	return strings.TrimSpace(line)
}

// ask sends a request with a header block as it stands, and returns its answer.
func (w *wire) ask(subject, block, body string) *nats.Msg {
	w.Helper()
	to := w.listen()
	if err := w.Flush(); err != nil {
		w.Fatal(err)
	}
	w.write(fmt.Sprintf("HPUB %s %s %d %d\r\n%s%s\r\n", subject, to.inbox, len(block), len(block)+len(body), block, body))
	return w.next(to)
}

// Header blocks that nats.go hands over without their headers, or without some, or that it reads
// although they have not the form of one.
var badBlocks = []string{
	"NATS/1.0\r\nPQ-Priority -5\r\n\r\n",              // no colon
	"NATS/1.0\r\nPQ-Priority: -5\r\n",                 // no empty line
	"NATS/1.0\r\nPQ-Priority: -5",                     // no end
	"NATS/1.0\r\nA: b\r\n folded\r\n\r\n",             // a folded line
	"NATS/1.0\r\nA: b\r\n PQ-Priority: -5\r\n\r\n",    // one that looks like a header
	"NATS/1.0\r\nA: b\r\n\tPQ-Priority: -5\r\n\r\n",   //
	"NATS/1.0\r\nPQ-Priority : -5\r\n\r\n",            // a space in the name
	"NATS/1.0\r\nA\r: b\r\n\r\n",                      // a control character
	"NATS/1.0\r\n: b\r\n\r\n",                         // no name
	"NATS/1.0\r\n\r\nPQ-Priority: -5\r\n\r\n",         // behind the end
	"NATS/1.0\r\nA: b\r\n\r\nPQ-Priority: -5\r\n\r\n", //
	"NATS/9.9\r\nPQ-Priority: -5\r\n\r\n",             // another version
	"HTTP/1.1\r\nPQ-Priority: -5\r\n\r\n",             // another protocol
	"PQ-Priority: -5\r\n\r\n",                         // no version
	"\r\n\r\n",                                        //
	"x",                                               //
	"NATS/1.0 503\r\n\r\n",                            // a status
	"NATS/1.0 503\r\nPQ-Priority:-5\r\n\r\n",          //
	"NATS/1.0 200 OK\r\nPQ-Priority: -5\r\n\r\n",      //
	"NATS/1.0\nPQ-Priority: -5\n\n",                   // no carriage returns
	"NATS/1.0\nPQ-Priority:-5\n\n",                    //
	"NATS/1.0\n\n",                                    //
	"NATS/1.0\r\nA: b\n\n",                            //
	"NATS/1.0\r\nA: b\x00c\r\n\r\n",                   // a zero byte
	"NATS/1.0\r\nA: \x00\r\n\r\n",                     //
	"NATS/1.0\r\nA\x00: b\r\n\r\n",                    //
}

// Every request with an unreadable header block is refused. It is never done without its
// headers.
func TestHeaderBlocks(t *testing.T) {
	t.Parallel()
	c := serve(t)
	w := c.wire()
	item := c.push("pq.jobs.push.7", "here")
	leased := c.push("pq.work.push.7", "leased")
	ack := c.pop("pq.work.pop.min", "", "PQ-Lease", "1h").Reply
	for _, block := range badBlocks {
		for _, subject := range []string{
			"pq.jobs.push", "pq.jobs.push.5", "pq.jobs.import", "pq.jobs.pop.min", "pq.jobs.peek.max", "pq.jobs.info", "pq.jobs.list",
			"pq.jobs.get." + item.ID, "pq.jobs.remove." + item.ID, "pq.jobs.move." + item.ID + ".1", "pq.jobs.admin.purge", "pq._sys.list", ack,
		} {
			m := c.refused(w.ask(subject, block, ""), 400)
			checkErrorBody(t, m, strings.Split(subject, ".")[2])
		}
	}
	if info := c.info("jobs"); info.Ready != 1 || info.Leased != 0 {
		t.Errorf("after refused requests: %+v", info)
	}
	if m := c.pop("pq.work.get."+leased.ID, ""); m.Header.Get("PQ-State") != "leased" {
		t.Errorf("a refused settlement left %v", m.Header)
	}

	// Header blocks of other client libraries are accepted too.
	for _, block := range []string{
		"NATS/1.0\r\nPQ-Priority: -5\r\n\r\n",
		"NATS/1.0\r\nPQ-Priority:-5\r\n\r\n",
		"NATS/1.0\r\nX: \r\nX:\r\nPQ-Priority: -5\r\n\r\n",
		"NATS/1.0\r\nStatus:503\r\nDescription:OK\r\nPQ-Priority:-5\r\n\r\n",
	} {
		if ack := c.acknowledged(w.ask("pq.jobs.push", block, "")); ack.Priority != -5 {
			t.Errorf("%q: %+v", block, ack)
		}
	}
	if ack := c.acknowledged(w.ask("pq.jobs.push", "NATS/1.0\r\n\r\n", "")); ack.Priority != 0 {
		t.Errorf("without headers: %+v", ack)
	}
}

// The headers of a message are bounded in number and in bytes.
func TestHeaderBounds(t *testing.T) {
	t.Parallel()
	c := serve(t)
	w := c.wire()
	block := func(lines, width int) string {
		var b strings.Builder
		b.WriteString("NATS/1.0\r\n")
		for i := range lines {
			fmt.Fprintf(&b, "H%d: %s\r\n", i%900, strings.Repeat("x", width))
		}
		return b.String() + "\r\n"
	}
	for _, tc := range []struct {
		block string
		code  int
	}{
		{block(1000, 1), 0},
		{block(1001, 1), 413},
		{block(120_000, 0), 413},
		{block(1, 64<<10-18), 0},
		{block(1, 64<<10-17), 413},
	} {
		m := w.ask("pq.jobs.push", tc.block, "")
		if tc.code != 0 {
			c.refused(m, tc.code)
			continue
		}
		c.acknowledged(m)
		if lines := len(c.pop("pq.jobs.pop.min", "").Header); lines < min(900, strings.Count(tc.block, "\n")-2) {
			t.Errorf("%d headers came back", lines)
		}
	}
}

// A message whose content the connection has left out is refused as busy.
func TestContentLeftOut(t *testing.T) {
	t.Parallel()
	c := serve(t)
	w := c.wire()
	for _, subject := range []string{"pq.jobs.push.1", "pq.jobs.import", "pq.jobs.pop.min"} {
		m := w.ask(subject, bridge.TooManyBytes, "")
		if m.Header.Get("Nats-Service-Error-Code") != "429" || !strings.Contains(m.Header.Get("Nats-Service-Error"), "more bytes arrive") {
			t.Errorf("%s: answer %q, %v: expected 429", subject, m.Data, m.Header)
		}
	}
	if m := w.ask("pq.jobs.info", "NATS/1.0\r\n\r\n", ""); m.Header.Get("Nats-Service-Error-Code") != "404" {
		t.Errorf("a refused push made the queue: %q", m.Data)
	}
}
