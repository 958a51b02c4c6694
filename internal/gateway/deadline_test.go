package gateway

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// limits accepts connections whose deadlines pass when a test says so.
type limits struct {
	net.Listener
	mu    sync.Mutex
	conns []*limitedConn
}

func (l *limits) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	limited := &limitedConn{Conn: conn}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conns = append(l.conns, limited)
	return limited, nil
}

// passes lets the deadlines before a time pass.
func (l *limits) passes(t testing.TB, now time.Time) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, conn := range l.conns {
		conn.passes(t, now)
	}
}

// limitedConn notes the deadlines that it is given.
type limitedConn struct {
	net.Conn
	mu          sync.Mutex
	read, write time.Time
}

// later is whether a deadline is for passes alone. The server sets others to end a read now.
func later(deadline time.Time) bool { return deadline.After(time.Unix(1, 0)) }

func (c *limitedConn) SetReadDeadline(deadline time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.read = deadline; later(deadline) {
		deadline = time.Time{}
	}
	return c.Conn.SetReadDeadline(deadline)
}

func (c *limitedConn) SetWriteDeadline(deadline time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.write = deadline; later(deadline) {
		deadline = time.Time{}
	}
	return c.Conn.SetWriteDeadline(deadline)
}

func (c *limitedConn) writesEnd() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return later(c.write)
}

func (c *limitedConn) passes(t testing.TB, now time.Time) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, one := range []struct {
		deadline time.Time
		set      func(time.Time) error
	}{{c.read, c.Conn.SetReadDeadline}, {c.write, c.Conn.SetWriteDeadline}} {
		if later(one.deadline) && one.deadline.Before(now) {
			if err := one.set(time.Unix(1, 0)); err != nil {
				t.Error(err)
			}
		}
	}
}

// limited is another server of the gateway, with the time limits of config.
func (s *site) limited(config *http.Server) (*httptest.Server, *limits) {
	web := httptest.NewUnstartedServer(s.Gateway)
	clock := &limits{Listener: web.Listener}
	web.Listener, config.Handler = clock, s.Gateway
	web.Config = config
	web.Start()
	s.Cleanup(web.Close)
	return web, clock
}

// The server's time limits are not for pops that wait. A pop has its own, because a client
// that reads nothing would keep its place for ever.
func TestWaitIsLongerThanTheServersLimits(t *testing.T) {
	t.Parallel()
	s := open(t)
	s.make("jobs")
	web, clock := s.limited(&http.Server{ReadTimeout: time.Minute, WriteTimeout: time.Minute})
	slow := *s // only the pop uses the server with limits
	slow.url = web.URL
	answers := make(chan reply, 1)
	go func() { answers <- slow.send("POST", "/v1/queues/jobs/pop?wait=100s", "") }()
	s.waiting("jobs", 1)
	if clock.mu.Lock(); !clock.conns[0].writesEnd() {
		t.Error("writing the answer has no limit")
	}
	clock.mu.Unlock()
	clock.passes(t, time.Now().Add(100*time.Second))
	s.ok(nil, "POST", "/v1/queues/jobs/push", "x")
	if late := <-answers; late.code != 200 || !strings.Contains(late.body, `"payload":"x"`) {
		t.Errorf("%+v", late)
	}
}

// A body that does not arrive in time is refused, and nothing is done.
func TestSlowBody(t *testing.T) {
	t.Parallel()
	s := open(t)
	s.make("jobs")
	s.await("no request is there", func() bool { return s.Gateway.room.bytes.taken() == 0 })
	web, clock := s.limited(&http.Server{ReadTimeout: ReadLimit})
	conn, err := net.Dial("tcp", web.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "POST /v1/queues/jobs/push HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 5\r\n\r\nhalf"); err != nil {
		t.Fatal(err)
	}
	s.await("the gateway reads the body", func() bool { return s.Gateway.room.bytes.taken() > 0 })
	clock.passes(t, time.Now().Add(2*ReadLimit))
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != 408 || !strings.Contains(string(body), "so nothing was done: expected it within 10s") {
		t.Errorf("%d %s, %v", answer.StatusCode, body, err)
	}
	s.refused(404, "", "POST", "/v1/queues/jobs/pop", "")
}
