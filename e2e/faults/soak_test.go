package faults_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/e2e/internal/pqd"
	"github.com/pqbridge/pqbridge/internal/testkit/history"
	"github.com/pqbridge/pqbridge/testenv"
)

var (
	flagSoak = flag.Duration("pq.soak", 0, "how long to soak; 0: not at all")
	flagRate = flag.Int("pq.rate", 200, "operations a second of a soak")
)

// level is how much more of something a pqd in use may have at the end than at the
// beginning without a leak: the noise of a sample.
type level struct {
	metric string
	noise  float64
	unit   float64 // that it is shown in
}

var levels = []level{
	{"process_resident_memory_bytes", 24 << 20, 1 << 20},
	{"go_goroutines", 12, 1},
	{"process_open_fds", 8, 1},
	{"pq_store_disk_bytes", 64 << 20, 1 << 20}, // logs and tables come and go by 32 MiB
}

const (
	epochTime    = 10 * time.Second
	warmUp       = 3 * time.Minute // ids are remembered for two
	fewest       = 12              // samples by which a soak is judged
	soakWorkers  = 8
	standingSize = 20_000
)

// sample has the numbers of one moment.
type sample struct {
	at    time.Duration
	value float64
}

// growth is the increase from the first to the last sample: the median of the slopes
// between any two samples, times the time between the first and the last. Up to half of
// the samples may be outliers.
func growth(samples []sample) float64 {
	var slopes []float64
	for i, a := range samples {
		for _, b := range samples[:i] {
			slopes = append(slopes, (a.value-b.value)/float64(a.at-b.at))
		}
	}
	slices.Sort(slopes)
	return slopes[len(slopes)/2] * float64(samples[len(samples)-1].at-samples[0].at)
}

// growth distinguishes a leak from noise.
func TestGrowth(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	series := func(leak float64) float64 {
		var samples []sample
		for i := range 100 {
			value := 100 + leak*float64(i)/99 + 10*float64(i%7)/7 + rng.NormFloat64()
			if i%9 == 0 {
				value += 80 // a compaction
			}
			samples = append(samples, sample{time.Duration(i) * time.Second, value})
		}
		return growth(samples)
	}
	if got := series(0); got < -5 || got > 5 {
		t.Errorf("nothing leaks, and it grows by %.1f", got)
	}
	if got := series(50); got < 40 || got > 60 {
		t.Errorf("50 leak, and it grows by %.1f", got)
	}
}

// soak is a pqd under load, with the samples of its resources.
type soak struct {
	*testing.T
	*pqd.Campaign
	nc      *nats.Conn
	began   time.Time
	samples map[string][]sample
	done    int // operations
	epochs  int
}

// Memory, goroutines, descriptors and disk space do not grow while clients come, work,
// vanish and go, and queues are created and deleted.
func TestSoak(t *testing.T) {
	t.Parallel()
	if *flagSoak == 0 {
		t.Skip("no -pq.soak")
	}
	c := pqd.NewCampaign(t)
	s := &soak{T: t, Campaign: c, nc: c.Process.Connect(t), samples: make(map[string][]sample)}
	s.fill()
	for until := time.Now().Add(warmUp); time.Now().Before(until); {
		s.epoch()
	}
	warm := s.done
	s.began = time.Now()
	for time.Since(s.began) < *flagSoak && !t.Failed() {
		s.epoch()
		s.sample()
	}
	s.Logf("%d operations in %s, after %d to warm up", s.done-warm, time.Since(s.began).Round(time.Second), warm)
	s.judge()
	s.nc.Close()
	s.Process.Stop(t)
}

// fill has the store use its full caches and logs, and leaves a queue with items that
// stay.
func (s *soak) fill() {
	for range 3 {
		const large = 64 << 10
		for i := range 1500 {
			pqd.Push(s.T, s.nc, "large", i%5, strings.Repeat(strconv.Itoa(i%10), large))
		}
		pqd.Drain(s.T, s.nc, "large")
	}
	for i := range standingSize {
		pqd.Push(s.T, s.nc, "standing", i%1000, fmt.Sprint("item ", i))
	}
}

// epoch is some seconds of work on a queue that is deleted at the end. The history of the
// clients is judged.
func (s *soak) epoch() {
	h := s.Begin(s, "soak", 1, soakWorkers)
	s.epochs++
	var clients sync.WaitGroup
	for _, w := range h.Workers {
		w.Vanishes, w.Life = true, s.epochs
		clients.Go(func() {
			pace := time.NewTicker(soakWorkers * time.Second / time.Duration(*flagRate))
			defer pace.Stop()
			over := time.NewTimer(epochTime)
			defer over.Stop()
			for {
				select {
				case <-pace.C:
					w.Step()
				case <-over.C:
					w.Finish()
					return
				}
			}
		})
	}
	clients.Wait()
	for _, operations := range h.End() {
		testenv.Judge(s, operations, history.One)
		s.done += len(operations)
	}
	for i := range *flagRate {
		pqd.Push(s.T, s.nc, "standing", i%1000, "another item")
		pqd.Pop(s.T, s.nc, "standing", "max")
		s.done += 2
	}
	for _, subject := range []string{"pq.standing.list", "pq.standing.info", "$SRV.STATS.pq", "pq.soak-0.admin.delete"} {
		if _, err := s.nc.Request(subject, nil, testenv.Patience()); err != nil {
			s.Fatalf("%s: %v", subject, err)
		}
	}
}

// sample reads pqd's numbers while it has little to do.
func (s *soak) sample() {
	_, page := pqd.Get(s.T, s.Process.HTTP+"/metrics")
	for _, l := range levels {
		s.samples[l.metric] = append(s.samples[l.metric], sample{time.Since(s.began), pqd.Metric(s.T, page, l.metric)})
	}
}

func (s *soak) judge() {
	for _, l := range levels {
		samples := s.samples[l.metric]
		if len(samples) < fewest {
			s.Fatalf("%d samples, expected %d or more: soak for longer", len(samples), fewest)
		}
		grown := growth(samples)
		s.Logf("%s: %.1f at first, %.1f in the end, grown by %.2f (%.2f an hour) over %s", l.metric, samples[0].value/l.unit,
			samples[len(samples)-1].value/l.unit, grown/l.unit, grown/l.unit/samples[len(samples)-1].at.Hours(), samples[len(samples)-1].at.Round(time.Second))
		if grown > l.noise {
			s.Errorf("%s grows: by %.1f, expected no more than %.1f", l.metric, grown/l.unit, l.noise/l.unit)
		}
	}
}
