package hours_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/pqbridge/pqbridge/bridge"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv/local"
	"github.com/pqbridge/pqbridge/protocol"
)

// hour is a bridge with its queues, and what happens to them.
type hour struct {
	*testing.T
	*nats.Conn
	server *server.Server
	bridge *bridge.Bridge
	began  time.Time
	over   chan struct{}
	actors sync.WaitGroup
}

// InProcessConn implements nats.InProcessConnProvider.
func (h *hour) InProcessConn() (net.Conn, error) { return h.server.InProcessConn() }

func begin(t *testing.T) *hour {
	h := &hour{T: t, began: time.Now(), over: make(chan struct{})}
	var err error
	check := func() {
		if err != nil {
			t.Fatal(err)
		}
	}
	h.server, err = server.NewServer(&server.Options{DontListen: true, NoSigs: true, NoLog: true})
	check()
	h.server.Start()
	engine, err := local.Open("store", local.Options{FS: vfs.NewMem()})
	check()
	store, err := fdbpq.Open(t.Context(), engine, fdbpq.Options{Exclusive: true})
	check()
	own, err := nats.Connect("", append(bridge.ConnectOptions(slog.New(slog.DiscardHandler)), nats.InProcessServer(h))...)
	check()
	h.bridge, err = bridge.Start(t.Context(), own, store, bridge.Options{Exclusive: true})
	check()
	h.Conn, err = nats.Connect("", nats.InProcessServer(h))
	check()
	t.Cleanup(func() {
		close(h.over)
		h.actors.Wait()
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := h.bridge.Drain(ctx); err != nil {
			t.Error(err)
		}
		h.Close()
		own.Close()
		if err := engine.Close(); err != nil {
			t.Error(err)
		}
		h.server.Shutdown()
		h.server.WaitForShutdown()
	})
	return h
}

// pause lets time pass, and reports whether the hour is over.
func (h *hour) pause(d time.Duration) (over bool) {
	select {
	case <-h.over:
		return true
	case <-time.After(d):
		return false
	}
}

// until lets time pass up to a moment of the hour.
func (h *hour) until(at time.Duration) (over bool) { return h.pause(time.Until(h.began.Add(at))) }

func (h *hour) ask(subject, body string, header ...string) *nats.Msg {
	m := &nats.Msg{Subject: subject, Data: []byte(body), Header: make(nats.Header)}
	for i := 0; i < len(header); i += 2 {
		m.Header.Set(header[i], header[i+1])
	}
	answer, err := h.RequestMsg(m, time.Minute)
	if err != nil {
		h.Errorf("%s: %v", subject, err)
		return &nats.Msg{Header: nats.Header{"Status": {"503"}}}
	}
	return answer
}

// does asks for what must not fail.
func (h *hour) does(subject, body string, header ...string) {
	if m := h.ask(subject, body, header...); m.Header.Get("Status") >= "4" {
		h.Errorf("%s %s: %v %s", subject, body, m.Header, m.Data)
	}
}

func (h *hour) info(queue string) (i protocol.Info) {
	if m := h.ask("pq."+queue+".info", `{"history":true}`); json.Unmarshal(m.Data, &i) != nil {
		h.Errorf("the info of %s: %v %s", queue, m.Header, m.Data)
	}
	return i
}

// metrics are those of the bridge that are about queues.
func (h *hour) metrics() map[string]float64 {
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(h.bridge.Collector())
	families, err := registry.Gather()
	if err != nil {
		h.Error(err)
	}
	values := make(map[string]float64)
	for _, family := range families {
		for _, m := range family.GetMetric() {
			queue, cause := "", ""
			for _, label := range m.GetLabel() {
				switch label.GetName() {
				case "queue":
					queue = label.GetValue()
				case "cause":
					cause = " " + label.GetValue()
				}
			}
			values[family.GetName()+" "+queue+cause] = cmp.Or(m.GetCounter().GetValue(), m.GetGauge().GetValue())
		}
	}
	return values
}

// worker is a program that takes the items of a queue.
type worker struct {
	*hour
	queue, name string
	lease       time.Duration
	takes       time.Duration                         // for a job, before extensions
	does        func(item string, attempt int) string // what it says in the end; "": it hangs until it is told otherwise
	extends     time.Duration                         // up to this moment of the hour while it hangs; 0: never
	leaves      time.Duration                         // it is killed at this moment of the hour; 0: never
}

// work runs until the worker is killed, hangs or the hour is over.
func (w *worker) work() {
	attempts := make(map[string]int)
	for w.leaves == 0 || time.Since(w.began) < w.leaves {
		m := w.ask("pq."+w.queue+".pop.min", "", "PQ-Wait", "20s", "PQ-Lease", w.lease.String(), "PQ-Holder", w.name)
		if m.Header.Get("PQ-Ack") == "" { // nothing is there
			if w.pause(0) {
				return
			}
			continue
		}
		ack, item := m.Header.Get("PQ-Ack"), string(m.Data)
		attempts[item]++
		says := w.does(item, attempts[item])
		if says == "" {
			w.hang(ack)
			return
		}
		for left := w.takes; left > 0; left -= w.lease / 2 {
			if w.pause(min(left, w.lease/2)) || w.leaves != 0 && time.Since(w.began) >= w.leaves {
				return
			}
			if left > w.lease/2 {
				w.hour.does(ack, "+WPI")
			}
		}
		w.hour.does(ack, says)
	}
}

// hang keeps the lease as long as it is extended.
func (w *worker) hang(ack string) {
	for time.Since(w.began) < w.extends && !w.pause(w.lease/3) {
		w.hour.does(ack, "+WPI")
	}
}

func (h *hour) run(fn func()) { h.actors.Go(fn) }

// workers start beside each other, and have names with numbers.
func (h *hour) workers(n int, like worker) {
	for i := range n {
		w := like
		w.hour, w.name = h, fmt.Sprintf("vm-%d", i+1)
		h.run(w.work)
	}
}

func (h *hour) push(queue string, n int, first string, header ...string) {
	for i := range n {
		h.does("pq."+queue+".push.5", fmt.Sprint(first, i), header...)
	}
}

// TestHours lets an hour pass over queues of all kinds at once, and looks at each of them, at first every five seconds.
func TestHours(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := begin(t)
		for _, s := range scenes {
			s.begin(h, s.queue)
		}
		seen := make(map[string][]look)
		for at, step := 5*time.Second, 5*time.Second; at <= end && !t.Failed(); at += step {
			if at == 7*time.Minute {
				step = 30 * time.Second
			}
			h.until(at)
			values := map[string]float64(nil)
			if at%time.Minute == 0 {
				values = h.metrics()
			}
			for _, s := range scenes {
				seen[s.queue] = append(seen[s.queue], look{at: at, Info: h.info(s.queue), values: values})
			}
		}
		for _, s := range scenes {
			s.judge(t, seen[s.queue])
		}
	})
}
