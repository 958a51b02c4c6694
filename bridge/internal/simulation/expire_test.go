package simulation_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
)

// A queue that deletes itself stays as long as a pop waits at any of several bridges, whichever of them sweeps, and for some time after
// that. Bridges that die note nothing, and their successors begin anew.
func queueEnds(t *testing.T) {
	s := &simulation{T: t, random: rand.New(rand.NewPCG(1, 0)), faults: make(map[string]int), began: time.Now(), shared: true}
	s.open()
	for range 2 {
		p := s.start(0)
		p.db.SetChances(nil)
		s.processes = append(s.processes, p)
	}
	nc, err := s.dial()
	if err != nil {
		t.Fatal(err)
	}
	gone, err := nc.SubscribeSync("pq.jobs.event.queue_deleted")
	if err != nil {
		t.Fatal(err)
	}
	ask := func(subject, body string, header ...string) *nats.Msg {
		m := &nats.Msg{Subject: subject, Data: []byte(body), Header: nats.Header{}}
		for i := 0; i < len(header); i += 2 {
			m.Header.Set(header[i], header[i+1])
		}
		answer, err := nc.RequestMsg(m, 20*time.Minute)
		if err != nil {
			t.Fatalf("%s: %v", subject, err)
		}
		return answer
	}
	there := func() bool { return ask("pq.jobs.info", "").Header.Get("Status") == "" }
	for round := range 6 {
		ask("pq.jobs.admin.config", `{"expire_empty":"1m"}`)
		if answer := ask("pq.jobs.pop.min", "", "PQ-Wait", "110s"); answer.Header.Get("Status") != "408" {
			t.Fatalf("round %d: a pop of an empty queue: %v", round, answer.Header)
		}
		if !there() {
			t.Fatalf("round %d: the queue was deleted while a pop waited", round)
		}
		if round%3 == 2 { // all that is known of waits is gone
			for i, p := range s.processes {
				s.kill(p)
				s.processes[i] = s.start(0)
				s.processes[i].db.SetChances(nil)
			}
		}
		if _, err := gone.NextMsg(40 * time.Second); err == nil || !there() {
			t.Fatalf("round %d: the queue was deleted early", round)
		}
		if _, err := gone.NextMsg(2 * time.Minute); err != nil || there() {
			t.Fatalf("round %d: the queue is there after three minutes: %v", round, err)
		}
	}
	nc.Close()
	for _, p := range s.processes {
		s.stop(p)
	}
	if err := s.engine.Close(); err != nil {
		t.Error(err)
	}
	s.server.Shutdown()
	s.server.WaitForShutdown()
}
