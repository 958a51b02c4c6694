package bridge_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/testenv"
)

// BenchmarkBeside compares pops beside writers that write in front of what they take with
// the same pops on their own, in the same run: the 99th percentile of each, and the ratio.
//
//   - bundles: pops of bundles of 1,000 from 20,000 keys with a key_limit, beside four
//     clients that push to these keys
//   - sweep: pops of bundles of 1,000 while sweeps free 80,000 keys, because key_limit was raised
//
// The machine should be idle.
//
//	go test ./bridge -run '^$' -bench Beside -benchtime 1x
func BenchmarkBeside(b *testing.B) {
	b.Run("bundles", func(b *testing.B) {
		const keys, bundle, rounds = 20_000, 1000, 6
		c := serve(b)
		var alone, beside []time.Duration
		for b.Loop() {
			for round := range 2 * rounds {
				queue := fmt.Sprint("q", round)
				c.ask("pq."+queue+".admin.config", `{"key_limit":1}`)
				c.fillKeys(queue, keys, 1)
				end := func() {}
				times := &alone
				if round%2 == 1 {
					times, end = &beside, c.pushInFront(queue, keys)
				}
				for range keys / bundle {
					*times = append(*times, c.timedPop(queue, bundle))
				}
				end()
				c.ask("pq."+queue+".admin.purge", "")
			}
		}
		reportRatio(b, alone, beside)
	})
	b.Run("sweep", func(b *testing.B) {
		const keys, bundle, pops = 80_000, 1000, 60
		c := serve(b)
		var alone, beside []time.Duration
		for b.Loop() {
			for _, queue := range []string{"calm", "raised"} {
				c.ask("pq."+queue+".admin.config", `{"key_limit":1}`)
				c.fillKeys(queue, keys, 2)
			}
			for range pops {
				alone = append(alone, c.timedPop("calm", bundle))
			}
			for range keys / bundle {
				c.timedPop("raised", bundle)
			}
			c.ask("pq.raised.admin.config", `{"key_limit":2}`)
			for range pops {
				beside = append(beside, c.timedPop("raised", bundle))
			}
			for _, queue := range []string{"calm", "raised"} {
				c.ask("pq."+queue+".admin.purge", "")
			}
		}
		reportRatio(b, alone, beside)
	})
}

// fillKeys pushes some items of each key.
func (c *client) fillKeys(queue string, keys, each int) {
	c.Helper()
	const bundle = 500
	for first := 0; first < keys*each; first += bundle {
		var frames []string
		for i := first; i < first+bundle; i++ {
			frames = append(frames, frame(fmt.Sprintf("%0100d", i), "PQ-Key", fmt.Sprintf("key-%d", i%keys), "PQ-Priority", "5"))
		}
		c.pushBundle("pq."+queue+".push", frames)
	}
}

// pushInFront has four clients push to keys of a queue until end is called.
func (c *client) pushInFront(queue string, keys int) (end func()) {
	return c.fourPush(func() *nats.Msg {
		subject := fmt.Sprintf("pq.%s.push.%d", queue, rand.IntN(10))
		return &nats.Msg{Subject: subject, Data: make([]byte, 100), Header: h("PQ-Key", fmt.Sprintf("key-%d", rand.IntN(keys)))}
	})
}

// fourPush has four clients push messages until end is called.
func (c *client) fourPush(message func() *nats.Msg) (end func()) {
	stop := make(chan struct{})
	var pushing sync.WaitGroup
	for range 4 {
		other := c.another()
		pushing.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if _, err := other.RequestMsg(message(), testenv.Patience()); err != nil {
					c.Error(err)
					return
				}
			}
		})
	}
	return func() {
		close(stop)
		pushing.Wait()
	}
}

// timedPop leases a bundle, of as many items as there are, and returns how long that took.
func (c *client) timedPop(queue string, n int) time.Duration {
	c.Helper()
	begun := time.Now()
	m := c.raw("pq."+queue+".pop.min", "", "PQ-Bundle", fmt.Sprint(n), "PQ-Lease", "1h", "PQ-Wait", "30s")
	took := time.Since(begun)
	if m.Header.Get("Status") != "" {
		c.Errorf("a pop of %d: %v after %v", n, m.Header, took)
	}
	return took
}

// reportRatio reports the 99th percentiles.
func reportRatio(b *testing.B, alone, beside []time.Duration) {
	p99 := func(times []time.Duration) float64 {
		slices.Sort(times)
		return float64(times[len(times)*99/100]) / float64(time.Millisecond)
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(p99(alone), "ms-p99-alone")
	b.ReportMetric(p99(beside), "ms-p99-beside")
	b.ReportMetric(p99(beside)/p99(alone), "ratio")
	b.ReportMetric(float64(alone[len(alone)/2])/float64(time.Millisecond), "ms-median-alone")
	b.ReportMetric(float64(beside[len(beside)/2])/float64(time.Millisecond), "ms-median-beside")
}
