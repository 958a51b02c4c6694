//go:build overload

package main_test

import (
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/testenv"
)

// What the campaign asks of pqd: so many times what it can do, for so long,
// and then its usual speed again, with no more memory than this at any time.
const (
	overloadFactor  = 10
	overloadTime    = time.Minute
	measureTime     = 10 * time.Second
	memoryLimit     = 1 << 30
	backToSpeed     = 0.7 // of the rate before: other work on the machine comes and goes
	overloadClients = 4
	windowed        = 256 // requests of a client that are under way while the sustainable rate is measured
)

// The campaign takes minutes and all of the machine, so it is behind a tag:
// make overload.
func TestOverload(t *testing.T) {
	p := testenv.Daemon(t)
	var clients []*asker
	for i := range overloadClients {
		clients = append(clients, newAsker(t, p, i))
	}
	before := sustained(clients)
	t.Logf("sustainable: %.0f requests a second, %d MiB", before, resident(t, p)>>20)

	peak := watchMemory(t, p)
	sent := flooded(clients, overloadFactor*before)
	t.Logf("offered: %.0f requests a second, %.1f times as much", sent, sent/before)
	quiet := time.Now()
	for _, c := range clients {
		c.settle()
	}
	t.Logf("all was answered %s after the last request; at most %d MiB", time.Since(quiet).Round(time.Millisecond), peak()>>20)
	total := make(map[string]int64)
	for _, c := range clients {
		if n := c.sent.Load() - c.answered.Load(); n != 0 || c.twice.Load() != 0 {
			t.Errorf("client %d: %d of %d requests were not answered, %d twice", c.number, n, c.sent.Load(), c.twice.Load())
		}
		if c.nc.Stats().Reconnects != 0 {
			t.Errorf("client %d was cut off", c.number)
		}
		for code, n := range c.codes() {
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
	t.Logf("afterwards: %.0f requests a second, %d MiB", after, resident(t, p)>>20)
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

// asker sends pushes and pops in turns, and knows which were answered.
type asker struct {
	number         int
	nc             *nats.Conn
	inbox          string
	sent, answered atomic.Int64
	twice          atomic.Int64
	window         chan struct{} // gets a value for every answer while it has room

	mu     sync.Mutex
	seen   []uint64 // a bit for every request
	byCode map[string]int64
}

func newAsker(t *testing.T, p *testenv.Process, number int) *asker {
	t.Helper()
	c := &asker{number: number, nc: p.Connect(t), window: make(chan struct{}, windowed), byCode: make(map[string]int64)}
	c.inbox = c.nc.NewInbox() + "."
	sub, err := c.nc.Subscribe(c.inbox+"*", c.receive)
	if err == nil {
		err = sub.SetPendingLimits(-1, -1)
	}
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func (c *asker) receive(m *nats.Msg) {
	n, err := strconv.ParseInt(strings.TrimPrefix(m.Subject, c.inbox), 10, 64)
	if err != nil {
		panic(err)
	}
	code := m.Header.Get("Nats-Service-Error-Code")
	if code == "" {
		code = "200"
		if m.Header.Get("Status") == "503" {
			code = "nobody there"
		}
	}
	c.mu.Lock()
	word, bit := n/64, uint64(1)<<(n%64)
	for int64(len(c.seen)) <= word {
		c.seen = append(c.seen, 0)
	}
	twice := c.seen[word]&bit != 0
	c.seen[word] |= bit
	c.byCode[code]++
	c.mu.Unlock()
	if twice {
		c.twice.Add(1)
		return
	}
	c.answered.Add(1)
	select {
	case c.window <- struct{}{}:
	default:
	}
}

func (c *asker) codes() map[string]int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	codes := c.byCode
	c.byCode = make(map[string]int64)
	return codes
}

var overloadBody = make([]byte, 128)

func (c *asker) send() {
	n := c.sent.Add(1) - 1
	subject, body := "pq.load.push.1", overloadBody
	if n%2 == 1 {
		subject, body = "pq.load.pop.min", nil
	}
	if err := c.nc.PublishRequest(subject, c.inbox+strconv.FormatInt(n, 10), body); err != nil {
		panic(err)
	}
}

// settle waits until everything that was sent is answered, or nothing has been
// for a while.
func (c *asker) settle() {
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	late := time.Now().Add(patience)
	for answered := int64(-1); c.answered.Load() < c.sent.Load() && time.Now().Before(late); <-ticker.C {
		if n := c.answered.Load(); n != answered {
			answered, late = n, time.Now().Add(patience)
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
			for time.Since(start) < measureTime {
				<-c.window
				c.send()
			}
			done.Add(c.answered.Load() - first)
			c.settle()
			c.codes()
		})
	}
	wg.Wait()
	return float64(done.Load()) / measureTime.Seconds()
}

// flooded sends at a rate, whatever is answered, and returns the rate that it
// came to.
func flooded(clients []*asker, rate float64) float64 {
	const tick = 5 * time.Millisecond
	var wg sync.WaitGroup
	var sent atomic.Int64
	start := time.Now()
	for _, c := range clients {
		wg.Go(func() {
			ticker := time.NewTicker(tick)
			defer ticker.Stop()
			n := int64(0)
			for range ticker.C {
				passed := time.Since(start)
				if passed >= overloadTime {
					break
				}
				for due := int64(rate / float64(len(clients)) * passed.Seconds()); n < due && time.Since(start) < overloadTime; n++ {
					c.send()
				}
			}
			sent.Add(n)
		})
	}
	wg.Wait()
	return float64(sent.Load()) / time.Since(start).Seconds()
}
