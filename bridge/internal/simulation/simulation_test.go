package simulation_test

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"log/slog"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/bridge"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/fdbpq/kv/local"
	"github.com/pqbridge/pqbridge/internal/testkit/fault"
	"github.com/pqbridge/pqbridge/internal/testkit/history"
	"github.com/pqbridge/pqbridge/internal/testkit/nightly"
	"github.com/pqbridge/pqbridge/testenv"
)

var (
	flagSeeds = flag.Int("pq.seeds", 0, "seeds to simulate; 0: a few")
	flagSeed  = flag.Uint64("pq.seed", 0, "the first seed to simulate; 0: a new one")
)

// A simulation is a NATS server, a store, bridges and clients in virtual time:
// an hour of leases and outages takes a moment. Its seed chooses what clients do
// and what goes wrong. Which goroutine runs first is up to the scheduler, so a
// seed that fails may need a few tries to fail again.
type simulation struct {
	*testing.T
	seed      uint64
	random    *rand.Rand
	server    *server.Server
	engine    kv.DB
	shared    bool // by several processes
	processes []*process
	faults    map[string]int // how often what went wrong
	began     time.Time
	elapsed   time.Duration
}

// process is a bridge with its own way to the store.
type process struct {
	db     *fault.DB
	nc     *nats.Conn
	bridge *bridge.Bridge
	skew   time.Duration // of its machine's wall clock
}

// InProcessConn implements nats.InProcessConnProvider.
func (s *simulation) InProcessConn() (net.Conn, error) { return s.server.InProcessConn() }

func (s *simulation) dial(options ...nats.Option) (*nats.Conn, error) {
	return nats.Connect("", append(options, nats.InProcessServer(s))...)
}

// chances returns the chances of faults of a faulty store, or of a store without faults if calm.
func (s *simulation) chances() fault.Chances {
	if s.random.IntN(3) == 0 {
		return nil
	}
	return fault.Chances{
		fault.Conflict: 0.1, fault.Unavailable: 0.01,
		fault.UnknownNever: 0.01, fault.UnknownDone: 0.01, fault.UnknownLate: 0.01,
	}
}

// start starts a process on a machine whose wall clock is wrong.
func (s *simulation) start(skew time.Duration) *process {
	p := &process{
		db:   fault.Wrap(s.engine, fault.Options{Seed: s.random.Uint64(), Yield: true}),
		skew: skew,
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	store, err := fdbpq.Open(ctx, p.db, fdbpq.Options{Wall: func() time.Time { return time.Now().Add(p.skew) }})
	if err != nil {
		s.Fatal(err)
	}
	if p.nc, err = s.dial(bridge.ConnectOptions(slog.New(slog.DiscardHandler))...); err != nil {
		s.Fatal(err)
	}
	if p.bridge, err = bridge.Start(ctx, p.nc, store, bridge.Options{Exclusive: !s.shared}); err != nil {
		s.Fatal(err)
	}
	p.db.SetChances(s.chances())
	return p
}

// stop ends a process in order.
func (s *simulation) stop(p *process) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := p.bridge.Drain(ctx); err != nil && !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, nats.ErrConnectionClosed) {
		s.Errorf("drain: %v", err)
	}
	p.nc.Close()
	p.db.Crash()
	// Its last commits may still take effect, or never.
	if s.random.IntN(2) == 0 {
		p.db.Release()
	}
	p.db.Drop()
}

// kill ends a process at once. Its requests in flight get no answer.
func (s *simulation) kill(p *process) {
	p.db.Crash()
	p.nc.Close()
	s.stop(p) // ends its goroutines
}

// trouble causes one fault.
func (s *simulation) trouble() {
	at := s.random.IntN(len(s.processes))
	p := s.processes[at]
	count := func(what string) { s.faults[what]++ }
	switch s.random.IntN(6) {
	case 0:
		count("kill")
		s.kill(p)
		<-time.After(time.Duration(s.random.IntN(60)) * time.Second)
		s.processes[at] = s.start(p.skew)
	case 1:
		count("stop")
		s.stop(p)
		s.processes[at] = s.start(p.skew)
	case 2:
		count("outage")
		p.db.Disconnect()
		<-time.After(time.Duration(s.random.IntN(30)) * time.Second)
		p.db.Reconnect()
	case 3:
		count("chances")
		p.db.SetChances(s.chances())
	case 4:
		count("late commits")
		p.db.Release()
	case 5:
		count("partition")
		if id, err := p.nc.GetClientID(); err == nil {
			if err := s.server.DisconnectClientByID(id); err != nil {
				count("partition without a connection")
			}
		}
	}
}

// newSimulation starts the bridges that a seed chooses.
func newSimulation(t *testing.T, seed uint64, faults map[string]int) *simulation {
	s := &simulation{T: t, seed: seed, random: rand.New(rand.NewPCG(seed, 0)), faults: faults, began: time.Now()}
	s.open()
	processes := 1
	if s.shared = s.random.IntN(2) == 0; s.shared {
		processes = 3
	}
	for range processes {
		s.processes = append(s.processes, s.start(time.Duration(s.random.IntN(600)-300)*time.Second))
	}
	return s
}

// open starts the server and the engine.
func (s *simulation) open() {
	var err error
	if s.server, err = server.NewServer(&server.Options{DontListen: true, NoSigs: true, NoLog: true, WriteDeadline: time.Minute}); err != nil {
		s.Fatal(err)
	}
	s.server.Start()
	if s.engine, err = local.Open("store", local.Options{FS: vfs.NewMem()}); err != nil {
		s.Fatal(err)
	}
}

// clientPatience is longer than processes are ever away, one death after the other.
const clientPatience = time.Hour

// bridges says what the clients are promised.
func (s *simulation) bridges() history.Bridges {
	if s.shared {
		return history.Several
	}
	return history.One
}

// run has clients use a queue under faults, and returns the history.
func (s *simulation) run() []history.Operation {
	recorder, answers := history.NewRecorder(), &atomic.Int64{}
	var clients sync.WaitGroup
	var workers []*testenv.Worker
	keys := 3 * s.random.IntN(3) // none for every third seed
	for id := range 6 {
		w := &testenv.Worker{
			TB: s, ID: id, Queue: "jobs", Dial: s.dial, Recorder: recorder, Answers: answers, Loses: true, Vanishes: true, Patience: clientPatience, Attempt: time.Second,
			Random: rand.New(rand.NewPCG(s.seed, uint64(id)+1)), Keys: keys,
		}
		w.Connect()
		if id == 0 && keys > 0 {
			w.Promise(1+s.random.Int64N(2), s.random.IntN(2) == 0)
		}
		workers = append(workers, w)
		clients.Go(func() {
			for range 40 {
				w.Step()
				<-time.After(time.Duration(w.Random.IntN(4000)) * time.Millisecond)
			}
			w.Finish()
		})
	}
	gone := make(chan struct{})
	go func() {
		clients.Wait()
		close(gone)
	}()
	for over := false; !over; {
		select {
		case <-gone:
			over = true
		case <-time.After(time.Duration(s.random.IntN(20)) * time.Second):
			s.trouble()
		}
	}
	for _, p := range s.processes {
		p.db.SetChances(nil)
	}
	if !s.Failed() {
		workers[0].Drain()
	}
	for _, w := range workers {
		w.Close()
	}
	for _, p := range s.processes {
		s.stop(p)
	}
	if err := s.engine.Close(); err != nil {
		s.Error(err)
	}
	s.server.Shutdown()
	s.server.WaitForShutdown()
	s.elapsed = time.Since(s.began)
	return recorder.Operations()
}

// TestSimulate judges what clients see of bridges whose processes die, whose
// store misbehaves and whose clocks are wrong.
func TestSimulate(t *testing.T) {
	seeds, first := cmp.Or(*flagSeeds, nightly.Fewer(10)), *flagSeed
	if first == 0 {
		first = rand.Uint64N(1 << 32)
	}
	total, elapsed, faults := 0, time.Duration(0), make(map[string]int)
	synctest.Test(t, func(t *testing.T) {
		for seed := first; seed < first+uint64(seeds) && !t.Failed(); seed++ {
			s := newSimulation(t, seed, faults)
			operations := s.run()
			if !t.Failed() {
				testenv.Judge(t, operations, s.bridges())
			}
			total, elapsed = total+len(operations), elapsed+s.elapsed
			if t.Failed() {
				t.Errorf("again: make campaign NAME=simulate SEEDS=1 SEED=%d", seed)
			}
		}
		queueEnds(t) // not a test of its own: NATS keeps timers of one bubble for the next one
	})
	t.Logf("from seed %d: %d seeds, %d operations, %.1f hours, %v", first, seeds, total, elapsed.Hours(), faults)
}
