package bridge_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/testenv"
)

// BenchmarkRequests compares requests to the bridge, on a store that syncs,
// with requests to an echo on the same server in the same run: clients with a
// connection each that send a request and wait for its answer.
//
//	go test ./bridge -run '^$' -bench Requests -benchtime 100000x
func BenchmarkRequests(b *testing.B) {
	for _, clients := range []int{1, 64, 256} {
		for _, verb := range []string{"push", "pop", "lease+ack"} {
			b.Run(fmt.Sprintf("%s-%d", verb, clients), func(b *testing.B) { compare(b, verb, clients) })
		}
	}
}

// compareRounds is how often the two alternate, so that other work on the machine affects
// both alike.
const compareRounds = 4

func compare(b *testing.B, verb string, clients int) {
	env := testenv.Bridge(b, chosen(nil))
	echo := env.NATS.Connect(b)
	if _, err := echo.QueueSubscribe("echo", "q", func(m *nats.Msg) { m.Respond(m.Data) }); err != nil {
		b.Fatal(err)
	}
	if err := echo.Flush(); err != nil {
		b.Fatal(err)
	}
	conns := make([]*nats.Conn, clients)
	for i := range conns {
		conns[i] = env.NATS.Connect(b)
	}
	payload := make([]byte, 128)
	ask := func(nc *nats.Conn, m *nats.Msg) *nats.Msg {
		answer, err := nc.RequestMsg(m, testenv.Patience())
		if err != nil {
			b.Error(err)
			return nil
		}
		return answer
	}
	each := map[string]func(*nats.Conn) bool{
		"echo": func(nc *nats.Conn) bool {
			return ask(nc, &nats.Msg{Subject: "echo", Data: payload}) != nil
		},
		"push": func(nc *nats.Conn) bool {
			m := ask(nc, &nats.Msg{Subject: "pq.jobs.push.5", Data: payload})
			return m != nil && m.Header == nil
		},
		"pop": func(nc *nats.Conn) bool {
			m := ask(nc, &nats.Msg{Subject: "pq.jobs.pop.min"})
			return m != nil && len(m.Data) == len(payload)
		},
		"lease+ack": func(nc *nats.Conn) bool {
			m := ask(nc, &nats.Msg{Subject: "pq.jobs.pop.min", Header: nats.Header{"PQ-Lease": {"1m"}}})
			return m != nil && len(m.Data) == len(payload) && ask(nc, &nats.Msg{Subject: m.Reply}) != nil
		},
	}
	run := func(verb string, n int) cost {
		do := each[verb]
		var left atomic.Int64
		left.Store(int64(n))
		start := now()
		var wg sync.WaitGroup
		for _, nc := range conns {
			wg.Go(func() {
				for left.Add(-1) >= 0 {
					if !do(nc) {
						b.Error("not served")
						return
					}
				}
			})
		}
		wg.Wait()
		end := now()
		return cost{end.wall - start.wall, end.cpu - start.cpu}
	}
	n := max(b.N/compareRounds, clients)
	if verb != "push" {
		for range compareRounds {
			fill(b, conns[0], n, payload)
		}
	}
	run("echo", clients)
	var echoed, served cost
	b.ResetTimer()
	for range compareRounds {
		e, s := run("echo", n), run(verb, n)
		echoed = cost{echoed.wall + e.wall, echoed.cpu + e.cpu}
		served = cost{served.wall + s.wall, served.cpu + s.cpu}
	}
	b.StopTimer()
	all := float64(n * compareRounds)
	b.ReportMetric(all/served.wall.Seconds(), "served/s")
	b.ReportMetric(all/echoed.wall.Seconds(), "echo/s")
	b.ReportMetric(float64(echoed.wall)/float64(served.wall), "of-echo")
	b.ReportMetric(float64(echoed.cpu)/float64(served.cpu), "cpu-of-echo")
	b.ReportMetric(0, "ns/op")
}

// cost is the time that a run needed. Processor time, of clients, server and bridge
// together, is meaningful on a busy machine too.
type cost struct{ wall, cpu time.Duration }

var started = time.Now()

func now() cost {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		panic(err)
	}
	return cost{time.Since(started), time.Duration(usage.Utime.Nano() + usage.Stime.Nano())}
}

// fill pushes n items as fast as the bridge acknowledges them.
func fill(b *testing.B, nc *nats.Conn, n int, payload []byte) {
	inbox := nc.NewInbox()
	window := make(chan struct{}, 5000)
	var acks atomic.Int64
	done := make(chan struct{})
	sub, err := nc.Subscribe(inbox, func(*nats.Msg) {
		<-window
		if acks.Add(1) == int64(n) {
			close(done)
		}
	})
	if err != nil {
		b.Fatal(err)
	}
	defer sub.Unsubscribe()
	for range n {
		window <- struct{}{}
		if err := nc.PublishRequest("pq.jobs.push.5", inbox, payload); err != nil {
			b.Fatal(err)
		}
	}
	<-done
}
