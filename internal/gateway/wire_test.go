package gateway

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/testenv"
)

// Beyond the share of an address the answers that it has been reading for longest are cut off,
// and beyond the bound of all addresses the answers of the address that has most.
func TestOutbox(t *testing.T) {
	t.Parallel()
	o := newOutbox(100)
	var cut []string
	begin := func(name string, to source, size int64) (leave func()) {
		return o.begin(to, size, func() { cut = append(cut, name) })
	}
	there, elsewhere := sourceOf("192.0.2.1:1"), sourceOf("192.0.2.2:1")
	begin("a", here, 30)
	leave := begin("b", here, 20)
	leave()
	begin("c", here, 20)
	begin("d", there, 40)
	if len(cut) != 0 {
		t.Errorf("cut off %q within the bounds", cut)
	}
	leave = begin("e", here, 5) // 55 of 50
	if !slices.Equal(cut, []string{"a"}) {
		t.Errorf("cut off %q, expected the oldest of the address", cut)
	}
	begin("f", elsewhere, 45) // 110 of 100, and there has 40
	if !slices.Equal(cut, []string{"a", "f"}) {
		t.Errorf("cut off %q, expected one of the address with most", cut)
	}
	begin("g", elsewhere, 30)
	leave()
	leave()
	if o.sum != 90 || o.of[here] != 20 || o.of[there] != 40 || o.of[elsewhere] != 30 || len(o.all) != 3 {
		t.Errorf("%d bytes are on their way, %v", o.sum, o.of)
	}
}

// answersAtTheEnd is a context that has ended, with which the answer of a call comes.
type answersAtTheEnd struct {
	context.Context
	call *call
}

func (c answersAtTheEnd) Done() <-chan struct{} {
	c.call.answers <- new(nats.Msg)
	return c.Context.Done()
}

// An answer that comes while the time runs out counts.
func TestAnswerAtTheEndCounts(t *testing.T) {
	t.Parallel()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for round := range 200 { // a select takes any case that is ready, so one round proves nothing
		c := &call{wire: new(wire), answers: make(chan *nats.Msg, 1)}
		if m, why := c.next(answersAtTheEnd{ended, c}); m == nil || why != nil {
			t.Fatalf("round %d: %v, %v; expected the answer", round, m, why)
		}
	}
}

// Clients that do not read large answers keep no places of requests, also not those of their
// own address.
func TestAnswersThatNobodyReads(t *testing.T) {
	t.Parallel()
	s := open(t)
	const most = maxUnread / 8 // a machine that has much else to do writes more than that too slowly
	s.outbox.most = most
	for range 18 {
		s.ok(nil, "POST", "/v1/queues/jobs/push", strings.Repeat("x", 50<<10))
	}
	// The system takes the rest of an answer that is as small as its buffer.
	web := httptest.NewUnstartedServer(s.Gateway)
	web.Config.ConnState = func(conn net.Conn, state http.ConnState) {
		if state == http.StateNew {
			if err := conn.(*net.TCPConn).SetWriteBuffer(16 << 10); err != nil {
				t.Error(err)
			}
		}
	}
	web.Start()
	t.Cleanup(web.Close)
	const readers = 8
	var conns []net.Conn
	var answers []*bufio.Reader
	for range readers {
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", web.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() }) // the gateway cuts some off
		if err := conn.(*net.TCPConn).SetReadBuffer(4 << 10); err != nil {
			t.Fatal(err)
		}
		if _, err := fmt.Fprintf(conn, "GET /v1/queues/jobs/items?bodies=true HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		answer := bufio.NewReaderSize(conn, 16)
		if _, err := answer.Peek(1); err != nil { // it is on its way
			t.Fatal(err)
		}
		conns, answers = append(conns, conn), append(answers, answer)
	}
	s.outbox.mu.Lock()
	if n := s.outbox.sum; n > most/2 || n < most/4 {
		t.Errorf("%d bytes are on their way to one address, expected up to %d", n, most/2)
	}
	s.outbox.mu.Unlock()
	if n := s.room.requests.taken(); n != 0 {
		t.Errorf("%d requests have places", n)
	}
	s.ok(nil, "GET", "/v1/queues/jobs", "")
	// The first one was cut off. What it gets is what the system held for it.
	if err := conns[0].SetReadDeadline(time.Now().Add(testenv.Patience())); err != nil {
		t.Fatal(err)
	}
	answer, err := http.ReadResponse(answers[0], nil)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := io.Copy(io.Discard, answer.Body); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the first client got %d bytes: %v, expected an answer that ends too early", n, err)
	}
}
