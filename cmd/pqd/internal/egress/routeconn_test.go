package egress

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

const (
	mark  = "NATS/1.0 429\r\n\r\n"
	large = 100
)

func requests() *Requests {
	return &Requests{Account: "$G", Prefixes: []string{"pq.", "hub.pq."}, Group: "pq", Large: large, Instead: mark}
}

// sink is a connection that keeps what is written, and sometimes takes a part alone.
type sink struct {
	net.Conn
	got     strings.Builder
	random  *rand.Rand // nil: it takes all
	broken  bool
	closing chan struct{} // closed when it may close
	closed  bool
}

var errSlow = errors.New("slow")

func (s *sink) Write(p []byte) (int, error) {
	if s.broken {
		return 0, errSlow
	}
	if s.random != nil && s.random.IntN(3) == 0 {
		n := s.random.IntN(len(p) + 1)
		s.got.Write(p[:n])
		return n, errSlow
	}
	s.got.Write(p)
	return len(p), nil
}

func (s *sink) SetWriteDeadline(time.Time) error { return nil }

func (s *sink) Close() error {
	<-s.closing
	s.closed = true
	return nil
}

// stream is what a server sends on a route, what has to arrive of it, and what while large requests are replaced.
func stream() (sent, calm, want string) {
	var s, c, w strings.Builder
	send := func(text string) { s.WriteString(text); c.WriteString(text) }
	both := func(text string) { send(text); w.WriteString(text) }
	body := func(n int) string { return strings.Repeat("RMSG $G pq.jobs.push | pq 200\r\n", n/31+1)[:n] }
	both("INFO {\"server_id\":\"a\"}\r\nPING\r\nPONG\r\nRS+ $G pq.> pq 1\r\n")
	both("RS+ $G " + strings.Repeat("y", lineMost+10) + "\r\n")
	for _, size := range []int{0, 1, large - 3, large - 2, 5000, 200_000} {
		for _, lost := range []string{"RMSG $G pq.jobs.push\rx | pq %d", "HMSG $G a _INBOX.\r 0 %d", "LMSG $G pq $G a\r\rb 0 %d"} {
			fmt.Fprintf(&s, lost+"\r\n%s\r\n", size, body(size))
		}
		for _, to := range []string{"pq.jobs.push", "hub.pq.jobs.push.5", "pq.jobs.push.\xa05"} {
			for _, reply := range []string{"| ", "+ _INBOX.x ", "+ _INBOX.\u00a0x\v\f\u0085\u2003 "} {
				plain := fmt.Sprintf("%s %s%s ", to, reply, "pq")
				replaced := fmt.Sprintf("%d %d\r\n%s\r\n", len(mark), len(mark), mark)
				for _, kind := range []string{"RMSG $G ", "HMSG $G ", "LMSG edge $G "} {
					head := ""
					if kind != "RMSG $G " {
						head = "0 "
						if size > 40 {
							head = "40 "
						}
					}
					text := fmt.Sprintf("%s%s%s%d\r\n%s\r\n", kind, plain, head, size, body(size))
					send(text)
					if size+2 < large {
						w.WriteString(text)
					} else {
						w.WriteString(strings.Replace(kind, "RMSG", "HMSG", 1) + plain + replaced)
					}
				}
			}
		}
		for _, other := range []string{
			"RMSG OTHER pq.jobs.push | pq %d", "RMSG $G pq.jobs.push | pqs %d", "RMSG $G pq.jobs.push x pq %d", "RMSG $G pq.jobs.push x _INBOX.x pq %d",
			"RMSG $G pq.jobs.push | pq more %d", "RMSG $G pq.jobs.push + _INBOX.x pq more %d",
			"RMSG $G jobs.pq.push | pq %d", "RMSG $G pq.jobs.push %d", "RMSG $G pq.jobs.push _INBOX.x %d", "RMSG $G _INBOX.x %d",
			"HMSG $G pq.jobs.push _INBOX.x 0 %d", "LMSG $G pq $G pq.jobs.push | 0 %d",
		} {
			both(fmt.Sprintf(other+"\r\n%s\r\n", size, body(size)))
		}
	}
	return s.String(), c.String(), w.String()
}

// writeAll writes in pieces, as the server does: it writes again what was not taken.
func writeAll(t *testing.T, c net.Conn, text string, random *rand.Rand) {
	t.Helper()
	for p := []byte(text); len(p) > 0; {
		piece := slices.Clone(p[:1+random.IntN(min(len(p), 70_000))]) // the server uses the memory again
		n, err := c.Write(piece)
		if err == nil && n != len(piece) || n < 0 || n > len(piece) || err != nil && !errors.Is(err, errSlow) {
			t.Fatalf("wrote %d of %d bytes: %v", n, len(piece), err)
		}
		clear(piece)
		p = p[n:]
	}
}

// Large requests are replaced, and nothing else, in whatever pieces a server writes and the connection takes them.
func TestFilterOfRoutes(t *testing.T) {
	t.Parallel()
	sent, calm, want := stream()
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 1))
		to := &sink{}
		if seed%2 == 1 {
			to.random = rand.New(rand.NewPCG(seed, 2))
		}
		c := &routeConn{Conn: to, requests: requests(), sheds: func(int64) bool { return true }}
		writeAll(t, c, sent, random)
		for to.random = nil; len(c.out) > 0; { // the next ping brings it
			if _, err := c.Write(nil); err != nil {
				t.Fatal(err)
			}
		}
		if got := to.got.String(); got != want {
			t.Fatalf("seed %d: %d bytes arrived, expected %d", seed, len(got), len(want))
		}

		to = &sink{random: to.random}
		writeAll(t, &routeConn{Conn: to, requests: requests(), sheds: func(int64) bool { return false }}, sent, random)
		if to.got.String() != calm {
			t.Fatalf("seed %d: without pressure %d bytes arrived, expected %d", seed, to.got.Len(), len(calm))
		}
	}
}

// A connection that takes nothing is told as one, so that the server closes it.
func TestFilterOfRouteThatTakesNothing(t *testing.T) {
	t.Parallel()
	c := &routeConn{Conn: &sink{broken: true}, requests: requests(), sheds: func(int64) bool { return true }}
	if _, err := c.Write([]byte("PING\r\n")); !errors.Is(err, errSlow) {
		t.Fatal(err)
	}
	for range 2 {
		if n, err := c.Write([]byte("PING\r\n")); n != 0 || !errors.Is(err, errSlow) {
			t.Errorf("it has taken %d bytes: %v", n, err)
		}
	}
}

// A line without an end is not held for ever.
func TestFilterOfLongLines(t *testing.T) {
	t.Parallel()
	to := &sink{}
	c := &routeConn{Conn: to, requests: requests(), sheds: func(int64) bool { return true }}
	line := strings.Repeat("y", lineMost+10)
	for _, part := range []string{"PING\r\n" + line[:10], line[10:], ""} {
		if _, err := c.Write([]byte(part)); err != nil {
			t.Fatal(err)
		}
	}
	if to.got.String() != "PING\r\n"+line {
		t.Errorf("%d bytes arrived, expected %d", to.got.Len(), len("PING\r\n"+line))
	}
}

// A filter asks about large requests alone, and says what is written of all that the server holds, them included.
func TestFilterSaysWhatIsWritten(t *testing.T) {
	t.Parallel()
	ping, small := "PING\r\n", "RMSG $G pq.jobs.push | pq 5\r\nsmall\r\n"
	request := func(size int) string {
		return fmt.Sprintf("RMSG $G pq.jobs.push | pq %d\r\n%s\r\n", size, strings.Repeat("x", size))
	}
	first, second, third := request(300), request(400), request(500)
	answers := map[int]bool{0: false, 1: true, 2: false}
	var asked []int64
	c := &routeConn{Conn: &sink{}, requests: requests(), sheds: func(written int64) bool {
		asked = append(asked, written)
		return answers[len(asked)-1]
	}}
	text := ping + small + first + second
	cut := len(ping+small) + 5 // within the line
	for _, part := range []string{text[:cut], text[cut:]} {
		if _, err := c.Write([]byte(part)); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.SetWriteDeadline(time.Time{}.Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Write([]byte(third)); err != nil {
		t.Fatal(err)
	}
	if err := c.SetWriteDeadline(time.Time{}); err != nil { // the server has written all
		t.Fatal(err)
	}
	if _, err := c.Write([]byte(ping + third)); err != nil {
		t.Fatal(err)
	}
	want := []int64{int64(len(ping + small + first)), int64(len(text)), int64(len(text + third)), int64(len(ping + third))}
	if !slices.Equal(asked, want) {
		t.Errorf("asked at %v, expected %v", asked, want)
	}
}

// Behind a filter a request is replaced when too much else waits, or the active node sheds.
func TestFilterDecides(t *testing.T) {
	t.Parallel()
	var held int64
	shedding := false
	f := &Filter{Log: slog.New(slog.DiscardHandler), Requests: *requests(), Most: 1000, Sheds: func() bool { return shedding }}
	to := &sink{}
	c := f.on(to, func() int64 { return held })
	if f.on(c, nil) != nil {
		t.Error("a filter on a filter")
	}
	text := fmt.Sprintf("RMSG $G pq.jobs.push | pq 5000\r\n%s\r\n", strings.Repeat("x", 5000))
	for _, at := range []struct {
		behind   int64
		sheds    bool
		replaced bool
	}{{0, false, false}, {1000, false, false}, {1001, false, true}, {0, true, true}, {0, false, false}} {
		to.got.Reset()
		held, shedding = int64(len(text))+at.behind, at.sheds
		if _, err := c.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
		if err := c.SetWriteDeadline(time.Time{}); err != nil {
			t.Fatal(err)
		}
		if replaced := to.got.String() != text; replaced != at.replaced {
			t.Errorf("%d bytes wait behind it, the active node sheds: %t: replaced: %t", at.behind, at.sheds, replaced)
		}
	}
}

// The server waits for the end of a plain connection, and for none with TLS, which may take seconds.
func TestFilterCloses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		to := &sink{closing: make(chan struct{})}
		if err := (&routeConn{Conn: tls.Client(to, &tls.Config{ServerName: "b"})}).Close(); err != nil {
			t.Error(err)
		}
		close(to.closing)
		synctest.Wait()
		if !to.closed {
			t.Error("a connection with TLS stays open")
		}
		to = &sink{closing: to.closing}
		if err := (&routeConn{Conn: to}).Close(); err != nil || !to.closed {
			t.Errorf("a plain connection stays open: %v", err)
		}
	})
}

// A flood is a line of the log a minute, and requests that go on whole are none.
func TestFilterLogs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var lines strings.Builder
		sheds := false
		f := &Filter{Most: 1000, Sheds: func() bool { return sheds }, Log: slog.New(slog.NewTextHandler(&lines, nil))}
		none := func() int64 { return 0 }
		for _, at := range []struct {
			sheds bool
			after time.Duration
			lines int
		}{{false, 0, 0}, {true, 0, 1}, {true, 30 * time.Second, 1}, {true, 31 * time.Second, 2}, {false, 5 * time.Minute, 2}, {true, 0, 3}} {
			<-time.After(at.after)
			if sheds = at.sheds; f.replaces(none, 0) != sheds {
				t.Errorf("the active node sheds: %t, and the filter does not do so", sheds)
			}
			if got := strings.Count(lines.String(), "level=WARN"); got != at.lines {
				t.Errorf("%d lines, expected %d:\n%s", got, at.lines, lines.String())
			}
		}
	})
}
