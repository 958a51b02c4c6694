//go:build overload

package performance_test

import (
	"bufio"
	"bytes"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/e2e/internal/pqd"
	"github.com/pqbridge/pqbridge/testenv"
)

// The campaign offers pqd this many times what it can do, for this long, and then expects
// its usual speed again, with no more memory than this at any time.
const (
	overloadFactor  = 10
	overloadTime    = time.Minute
	rateTime        = 10 * time.Second
	memoryLimit     = 1 << 30
	backToSpeed     = 0.7 // of the rate before: other work on the machine comes and goes
	overloadClients = 4
	windowed        = 256 // requests of a client that are under way while the sustainable rate is measured
)

// The campaign needs minutes and the whole machine, so it is behind a tag: make campaign NAME=overload.
func TestOverload(t *testing.T) {
	t.Parallel()
	p := testenv.Daemon(t)
	var clients []*asker
	for range overloadClients {
		clients = append(clients, newAsker(t, p))
	}
	before := sustained(clients)
	t.Logf("sustainable: %.0f requests a second, %d MiB", before, pqd.Resident(t, p)>>20)
	for i, c := range clients {
		if n := c.refused.Load(); n > 0 {
			t.Errorf("client %d: %d of %d requests were refused although it waits for answers", i, n, c.sent.Load())
		}
	}

	peak := pqd.WatchMemory(t, p)
	var floods []*flood
	for i := range overloadClients {
		floods = append(floods, newFlood(t, p, i))
	}
	sent := flooded(floods, overloadFactor*before)
	t.Logf("offered: %.0f requests a second, %.1f times as much", sent, sent/before)
	quiet := time.Now()
	for _, f := range floods {
		f.settle()
	}
	t.Logf("all was answered %s after the last request; at most %d MiB", time.Since(quiet).Round(time.Millisecond), peak()>>20)
	total := make(map[string]int64)
	for i, f := range floods {
		if n := f.sent.Load() - f.answered.Load(); n != 0 || f.twice.Load() != 0 {
			t.Errorf("connection %d: %d of %d requests were not answered, %d twice", i, n, f.sent.Load(), f.twice.Load())
		}
		for code, n := range f.end(t) {
			total[code] += n
		}
	}
	t.Logf("answers: %v", total)
	if most := peak(); most > memoryLimit {
		t.Errorf("pqd needed %d MiB, expected no more than %d", most>>20, memoryLimit>>20)
	}
	if total["429"] == 0 {
		t.Error("nothing was refused: that was no overload")
	}
	after := sustained(clients)
	t.Logf("afterwards: %.0f requests a second, %d MiB", after, pqd.Resident(t, p)>>20)
	if after < backToSpeed*before {
		t.Errorf("%.0f requests a second after the overload, %.0f before", after, before)
	}
	if log := p.Log(); len(log) > 100_000 {
		t.Errorf("pqd logged %d bytes", len(log))
	}
	for _, c := range clients {
		c.nc.Close()
	}
	p.Stop(t)
}

// asker is an ordinary client that sends pushes and pops in turns.
type asker struct {
	nc             *nats.Conn
	inbox          string
	sent, answered atomic.Int64
	refused        atomic.Int64
	window         chan struct{} // gets a value for every answer while it has room
}

func newAsker(t *testing.T, p *testenv.Process) *asker {
	t.Helper()
	c := &asker{nc: p.Connect(t), window: make(chan struct{}, windowed)}
	c.inbox = c.nc.NewInbox()
	sub, err := c.nc.Subscribe(c.inbox, c.receive)
	if err == nil {
		err = sub.SetPendingLimits(-1, -1)
	}
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func (c *asker) receive(m *nats.Msg) {
	c.answered.Add(1)
	switch m.Header.Get("Status") {
	case "", "404": // done, or nothing there to be popped
	default:
		c.refused.Add(1)
	}
	select {
	case c.window <- struct{}{}:
	default:
	}
}

func (c *asker) send() {
	n := c.sent.Add(1)
	var err error
	if n%2 == 0 {
		err = c.nc.PublishRequest("pq.load.push.1", c.inbox, overloadBody)
	} else {
		err = c.nc.PublishRequest("pq.load.pop.min", c.inbox, nil)
	}
	if err != nil {
		panic(err)
	}
}

var overloadBody = make([]byte, 128)

func (c *asker) settle() { settled(&c.sent, &c.answered) }

// settled waits until every request is answered, or none was for a while.
func settled(sent, answered *atomic.Int64) {
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	late := testenv.BeginWait()
	for last := int64(-1); answered.Load() < sent.Load() && !late.Over(); <-ticker.C {
		if n := answered.Load(); n != last {
			last, late = n, testenv.BeginWait()
		}
	}
}

// sustained measures how many requests a second are answered when every client
// waits for answers before it sends more.
func sustained(clients []*asker) float64 {
	var wg sync.WaitGroup
	var done atomic.Int64
	start := time.Now()
	for _, c := range clients {
		wg.Go(func() {
			for len(c.window) > 0 {
				<-c.window
			}
			first := c.answered.Load()
			for range windowed {
				c.send()
			}
			for time.Since(start) < rateTime {
				<-c.window
				c.send()
			}
			done.Add(c.answered.Load() - first)
			c.settle()
		})
	}
	wg.Wait()
	return float64(done.Load()) / rateTime.Seconds()
}

// flood is a connection that speaks the protocol itself, to send many times
// what a client library can next to the daemon on one machine. It knows which
// of its requests were answered, and how.
type flood struct {
	conn           net.Conn
	inbox          string
	sent, answered atomic.Int64
	twice          atomic.Int64
	ended          chan error

	seen   []uint64 // a bit for every request; the reader's
	byCode map[string]int64
}

func newFlood(t *testing.T, p *testenv.Process, number int) *flood {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(p.URL, "nats://"))
	if err != nil {
		t.Fatal(err)
	}
	f := &flood{conn: conn, inbox: fmt.Sprintf("_INBOX.flood%d.", number), ended: make(chan error, 1), byCode: make(map[string]int64)}
	hello := `CONNECT {"verbose":false,"pedantic":false,"headers":true,"no_responders":true,"protocol":1}` + "\r\nSUB " + f.inbox + "* 1\r\nPING\r\n"
	if _, err := conn.Write([]byte(hello)); err != nil {
		t.Fatal(err)
	}
	go func() { f.ended <- f.read(bufio.NewReaderSize(conn, 1<<18)) }()
	return f
}

// read reads what the server sends until the connection is closed.
func (f *flood) read(r *bufio.Reader) error {
	for {
		line, err := r.ReadSlice('\n')
		if err != nil {
			return err
		}
		switch {
		case bytes.HasPrefix(line, []byte("MSG ")), bytes.HasPrefix(line, []byte("HMSG ")):
			err = f.answer(r, bytes.Fields(line))
		case bytes.HasPrefix(line, []byte("PING")):
			_, err = f.conn.Write([]byte("PONG\r\n")) // writes of other goroutines do not mix with it
		case bytes.HasPrefix(line, []byte("-ERR")):
			err = fmt.Errorf("the server says %s", line)
		}
		if err != nil {
			return err
		}
	}
}

func (f *flood) answer(r *bufio.Reader, fields [][]byte) error {
	n, err := strconv.ParseInt(string(fields[1][len(f.inbox):]), 10, 64)
	if err != nil {
		return err
	}
	size, err := strconv.Atoi(string(fields[len(fields)-1]))
	if err != nil {
		return err
	}
	body, err := r.Peek(size)
	if err != nil {
		return err
	}
	code := "200"
	if _, after, found := bytes.Cut(body, []byte("Nats-Service-Error-Code: ")); found {
		code = string(after[:3])
	} else if bytes.HasPrefix(body, []byte("NATS/1.0 503")) {
		code = "no responders"
	}
	f.byCode[code]++
	word, bit := n/64, uint64(1)<<(n%64)
	for int64(len(f.seen)) <= word {
		f.seen = append(f.seen, 0)
	}
	if f.seen[word]&bit != 0 {
		f.twice.Add(1)
	} else {
		f.seen[word] |= bit
		f.answered.Add(1)
	}
	_, err = r.Discard(size + len("\r\n"))
	return err
}

// send sends requests, pushes and pops in turns.
func (f *flood) send(buffer []byte, requests int64) ([]byte, error) {
	b := buffer[:0]
	first := f.sent.Add(requests) - requests
	for n := first; n < first+requests; n++ {
		if n%2 == 0 {
			b = append(append(b, "PUB pq.load.push.1 "...), f.inbox...)
			b = append(strconv.AppendInt(b, n, 10), " 128\r\n"...)
			b = append(append(b, overloadBody...), "\r\n"...)
		} else {
			b = append(append(b, "PUB pq.load.pop.min "...), f.inbox...)
			b = append(strconv.AppendInt(b, n, 10), " 0\r\n\r\n"...)
		}
	}
	_, err := f.conn.Write(b)
	return b, err
}

func (f *flood) settle() { settled(&f.sent, &f.answered) }

// end closes the connection and returns how the requests were answered.
func (f *flood) end(t *testing.T) map[string]int64 {
	t.Helper()
	select {
	case err := <-f.ended:
		t.Errorf("a connection was cut off: %v", err)
	default:
		f.conn.Close()
		<-f.ended
	}
	return f.byCode
}

// flooded sends at a rate, whatever is answered, and returns the rate that it reached:
// the server slows down clients that send more than it can pass on.
func flooded(floods []*flood, rate float64) float64 {
	const tick, most = time.Millisecond, 1024 // requests in one write
	var wg sync.WaitGroup
	var sent atomic.Int64
	start := time.Now()
	for _, f := range floods {
		wg.Go(func() {
			var buffer []byte
			ticker := time.NewTicker(tick)
			defer ticker.Stop()
			n := int64(0)
			for range ticker.C {
				for time.Since(start) < overloadTime {
					due := int64(rate/float64(len(floods))*time.Since(start).Seconds()) - n
					if due <= 0 {
						break
					}
					var err error
					if buffer, err = f.send(buffer, min(due, most)); err != nil {
						break
					}
					n += min(due, most)
				}
				if time.Since(start) >= overloadTime {
					break
				}
			}
			sent.Add(n)
		})
	}
	wg.Wait()
	return float64(sent.Load()) / time.Since(start).Seconds()
}
