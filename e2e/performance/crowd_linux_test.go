package performance_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/e2e/internal/pqd"
	"github.com/pqbridge/pqbridge/internal/testkit/nightly"
	"github.com/pqbridge/pqbridge/testenv"
)

var flagQueues = flag.Int("pq.queues", 0, "queues of a pqd, to tell what they cost; 0: none")

// crowdStores are the settings of a new store, by engine.
var crowdStores = map[string]func(testing.TB) []string{
	"embedded": func(testing.TB) []string { return nil },
}

// What a pqd with many queues costs, most of them idle: its start, its lists, its metrics,
// its rest and its memory.
func TestCrowdOfQueues(t *testing.T) {
	nightly.Only(t, "it measures")
	if *flagQueues == 0 {
		t.Skip("no -pq.queues")
	}
	for engine, store := range crowdStores {
		filled := func(t *testing.T) *crowd {
			c := &crowd{T: t, Process: testenv.Daemon(t, append(store(t), "PQ_PROFILE=true")...)}
			c.connect()
			c.memory("empty")
			c.fill()
			return c
		}
		t.Run(engine+"/answers", func(t *testing.T) {
			c := filled(t)
			c.Kill(t)
			c.start("after a kill")
			c.starts()
			c.idle("after its start")
			c.lists()
			c.infos("alone")
			c.pages()
			c.busy()
			c.Stop(t)
		})
		t.Run(engine+"/memory", func(t *testing.T) {
			c := filled(t)
			c.memory("filled")
			c.Stop(t)
			c.starts()
			c.memory("started again")
			c.serve()
			c.memory("after each queue was served")
			c.idle("after each queue was served")
			c.memory("after a rest")
			c.Stop(t)
		})
	}
}

// crowd is a pqd with many queues.
type crowd struct {
	*testing.T
	*testenv.Process
	clients []*nats.Conn
	started int // times

	heap, resident float64 // bytes that it had when it was empty
}

func crowdQueue(i int) string { return fmt.Sprintf("tenant-%06d", i) }

const crowdClients = 64

// connect makes the connections of clients anew.
func (c *crowd) connect() {
	c.Helper()
	for _, nc := range c.clients {
		nc.Close()
	}
	c.clients = nil
	for range crowdClients {
		c.clients = append(c.clients, c.Connect(c.T))
	}
}

// each does something for each queue, with all clients.
func (c *crowd) each(do func(nc *nats.Conn, i int) error) {
	c.Helper()
	var wg sync.WaitGroup
	for first, nc := range c.clients {
		wg.Go(func() {
			for i := first; i < *flagQueues; i += len(c.clients) {
				if err := do(nc, i); err != nil {
					c.Errorf("queue %d: %v", i, err)
					return
				}
			}
		})
	}
	if wg.Wait(); c.Failed() {
		c.FailNow()
	}
}

// answered asks something that pqd must not refuse.
func answered(nc *nats.Conn, subject, body string, headers nats.Header) (*nats.Msg, error) {
	answer, err := nc.RequestMsg(&nats.Msg{Subject: subject, Data: []byte(body), Header: headers}, testenv.Patience())
	if err == nil && answer.Header.Get("Status") != "" {
		err = fmt.Errorf("%s: %v", subject, answer.Header)
	}
	return answer, err
}

// fill makes queues with an item each. Some are configured, some items are delayed, leased
// or have keys.
func (c *crowd) fill() {
	c.Helper()
	began := time.Now()
	c.each(func(nc *nats.Conn, i int) error {
		at := "pq." + crowdQueue(i)
		headers := nats.Header{}
		switch i % 8 {
		case 1:
			if _, err := answered(nc, at+".admin.config", `{"max_deliveries":3,"max_length":1000,"ttl":"24h"}`, nil); err != nil {
				return err
			}
		case 2:
			headers.Set("PQ-Delay", "2h")
		case 3:
			headers.Set("PQ-Key", "customer")
		}
		_, err := answered(nc, at+".push", strings.Repeat("x", 100), headers)
		if err == nil && i%8 == 4 {
			_, err = answered(nc, at+".pop.min", "", nats.Header{"PQ-Lease": {"2h"}})
		}
		return err
	})
	c.Logf("filled: %d queues after %s", *flagQueues, time.Since(began).Round(time.Second))
}

// serve pushes an item to each queue and pops one.
func (c *crowd) serve() {
	c.Helper()
	began := time.Now()
	c.each(func(nc *nats.Conn, i int) error {
		at := "pq." + crowdQueue(i)
		_, err := answered(nc, at+".push", strings.Repeat("x", 100), nil)
		if err == nil {
			_, err = answered(nc, at+".pop.min", "", nil)
		}
		return err
	})
	took := time.Since(began)
	c.Logf("served each queue: %s, %.0f pairs of a push and a pop a second", took.Round(time.Second), float64(*flagQueues)/took.Seconds())
}

// starts starts pqd some times, after ends in order.
func (c *crowd) starts() {
	c.Helper()
	for range 3 {
		if c.Running() {
			c.Stop(c.T)
		}
		c.start("after a stop")
	}
	c.connect()
}

// start starts pqd again and tells how long clients wait.
func (c *crowd) start(what string) {
	c.Helper()
	c.started++
	began := time.Now()
	c.Begin(c.T)
	var wg sync.WaitGroup
	var ready, popped time.Duration
	until := func(took *time.Duration, done func() bool) {
		for !done() && time.Since(began) < testenv.Patience() {
			<-time.After(2 * time.Millisecond) // the processors are pqd's
		}
		*took = time.Since(began)
	}
	wg.Go(func() {
		until(&ready, func() bool {
			page, err := (&http.Client{Timeout: testenv.Attempt()}).Get(c.HTTP + "/readyz")
			if err != nil {
				return false
			}
			defer page.Body.Close()
			return page.StatusCode == http.StatusOK
		})
	})
	wg.Go(func() {
		until(&popped, func() bool {
			nc, err := nats.Connect(c.URL)
			if err != nil {
				return false
			}
			defer nc.Close()
			_, err = nc.Request("pq."+crowdQueue(c.started)+".pop.min", nil, time.Second)
			return err == nil
		})
	})
	wg.Wait()
	c.AwaitReady(c.T)
	c.Logf("start %s: ready after %s, first answer after %s", what, ready.Round(time.Millisecond), popped.Round(time.Millisecond))
}

// times tells how long something took.
func (c *crowd) times(what string, all []time.Duration) {
	c.Helper()
	slices.Sort(all)
	c.Logf("%s: p50 %s, p99 %s, %d times", what, all[len(all)/2].Round(time.Microsecond), all[len(all)*99/100].Round(time.Microsecond), len(all))
}

func (c *crowd) ask(subject, body string) (answer []byte, took time.Duration) {
	c.Helper()
	began := time.Now()
	m, err := answered(c.clients[0], subject, body, nil)
	if err != nil {
		c.Fatal(err)
	}
	return m.Data, time.Since(began)
}

// lists reads the names of all queues, page by page.
func (c *crowd) lists() {
	c.Helper()
	for _, limit := range []int{100, 1000} {
		var all []time.Duration
		var sum time.Duration
		n := 0
		for after := ""; ; {
			answer, took := c.ask("pq._sys.list", fmt.Sprintf(`{"limit":%d,"after":%q}`, limit, after))
			var page struct {
				Queues []string
				Next   string
			}
			if err := json.Unmarshal(answer, &page); err != nil {
				c.Fatal(err)
			}
			n, sum, all = n+len(page.Queues), sum+took, append(all, took)
			if after = page.Next; after == "" {
				break
			}
		}
		if n != *flagQueues {
			c.Errorf("pages of %d have %d names, expected %d", limit, n, *flagQueues)
		}
		c.times(fmt.Sprintf("pages of %d behind a name", limit), all)
		c.Logf("all %d names in pages of %d: %s", n, limit, sum.Round(time.Millisecond))
	}
	var all []time.Duration
	for i := range 10 {
		_, took := c.ask("pq._sys.list", fmt.Sprintf(`{"offset":%d}`, i**flagQueues/10))
		all = append(all, took)
	}
	c.times("pages of 100 at an offset, with the total", all)
}

func (c *crowd) infos(what string) {
	c.Helper()
	var all []time.Duration
	for range 2000 {
		_, took := c.ask("pq."+crowdQueue(rand.IntN(*flagQueues))+".info", "")
		all = append(all, took)
	}
	c.times("info, "+what, all)
}

// busy has clients push and pop at random queues meanwhile.
func (c *crowd) busy() {
	c.Helper()
	stop := make(chan struct{})
	var wg sync.WaitGroup
	own := c.Connect(c.T)
	began, done := time.Now(), make([]int, len(c.clients))
	for i, nc := range c.clients {
		wg.Go(func() {
			for ; ; done[i]++ {
				select {
				case <-stop:
					return
				default:
				}
				at := "pq." + crowdQueue(rand.IntN(*flagQueues))
				_, err := answered(nc, at+".push", strings.Repeat("x", 100), nil)
				if err == nil {
					_, err = answered(nc, at+".pop.min", "", nil)
				}
				if err != nil && !strings.Contains(err.Error(), "404") {
					c.Error(err)
					return
				}
			}
		})
	}
	c.clients[0], own = own, c.clients[0]
	c.infos(fmt.Sprintf("beside %d clients", crowdClients))
	c.lists()
	close(stop)
	wg.Wait()
	all := 0
	for _, n := range done {
		all += n
	}
	c.Logf("meanwhile: %.0f pairs of a push and a pop a second", float64(all)/time.Since(began).Seconds())
	own.Close()
}

// pages looks at /metrics, and asks for STATS.
func (c *crowd) pages() {
	c.Helper()
	for range 3 {
		began := time.Now()
		_, page := pqd.Get(c.T, c.HTTP+"/metrics")
		c.Logf("/metrics: %s, %d bytes", time.Since(began).Round(time.Millisecond), len(page))
		answer, took := c.ask("$SRV.STATS.pq", "")
		c.Logf("STATS: %s, %d bytes", took.Round(time.Millisecond), len(answer))
	}
}

var heapAlloc = regexp.MustCompile(`(?m)^# HeapAlloc = (\d+)$`)

// memory tells what the process has after garbage was collected.
func (c *crowd) memory(when string) {
	c.Helper()
	_, page := pqd.Get(c.T, c.HTTP+"/debug/pprof/heap?gc=1&debug=1")
	found := heapAlloc.FindStringSubmatch(page)
	if found == nil {
		c.Fatal("the profile of the heap does not say how large it is")
	}
	heap, err := strconv.ParseFloat(found[1], 64)
	if err != nil {
		c.Fatal(err)
	}
	_, page = pqd.Get(c.T, c.HTTP+"/metrics")
	resident := pqd.Metric(c.T, page, "process_resident_memory_bytes")
	if c.heap == 0 {
		c.heap, c.resident = heap, resident
	}
	c.Logf("memory, %s: heap %.1f MB, %.0f bytes a queue more than empty; resident %.1f MB, %.0f bytes a queue; Go has %.1f MB, of which it gave %.1f back; %.0f goroutines", when,
		heap/1e6, (heap-c.heap)/float64(*flagQueues), resident/1e6, (resident-c.resident)/float64(*flagQueues),
		pqd.Metric(c.T, page, "go_memstats_sys_bytes")/1e6, pqd.Metric(c.T, page, "go_memstats_heap_released_bytes")/1e6, pqd.Metric(c.T, page, "go_goroutines"))
}

// idle tells what pqd does while nobody asks for anything.
func (c *crowd) idle(what string) {
	c.Helper()
	commits := func() float64 {
		_, page := pqd.Get(c.T, c.HTTP+"/metrics")
		return pqd.Metric(c.T, page, "pq_store_commits_total")
	}
	n := commits()
	<-time.After(2 * time.Second) // what follows requests
	const length = 8 * time.Second
	used := c.processorTime()
	<-time.After(length)
	used = c.processorTime() - used
	c.Logf("idle, %s: %.1f ms of processor time a second, %.1f commits a second", what, float64(used.Milliseconds())/length.Seconds(), (commits()-n)/(length+2*time.Second).Seconds())
}

// processorTime is what the process has used.
func (c *crowd) processorTime() time.Duration {
	c.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", c.PID()))
	if err != nil {
		c.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), ") ")
	fields := strings.Fields(rest)
	var ticks int64
	for _, field := range fields[11:13] { // in user mode, and in the system
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			c.Fatal(err)
		}
		ticks += n
	}
	return time.Duration(ticks) * time.Second / 100
}
