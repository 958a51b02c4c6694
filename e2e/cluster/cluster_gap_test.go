package cluster_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/e2e/internal/pqd"
	"github.com/pqbridge/pqbridge/testenv"
)

var trials = flag.Int("pq.trials", 0, "how often each kind of gap is measured in a campaign; 0: never")

// How long clients wait for a hand-over or a takeover, printed because it depends on the
// machine, and what they find afterwards: everything acknowledged, once, in order.
func TestClusterGap(t *testing.T) {
	t.Parallel()
	if *trials == 0 {
		t.Skip("no -pq.trials")
	}
	for _, what := range []string{
		"SIGTERM of the active node", "pq cluster step-down", "SIGTERM of a follower", "a rolling restart",
		"SIGKILL of a follower", "SIGKILL of the active node", pqd.LeaderKilled, pqd.BothKilled, "SIGKILL of two", "SIGKILL of all",
		"SIGSTOP of the active node", pqd.LeaderStopped, pqd.BothStopped,
	} {
		t.Run(what, func(t *testing.T) { // one after the other: each has the machine for itself
			nodes := testenv.NewNodes(t, "PQ_LOG_LEVEL=debug") // it shows which node leads the log
			x := &pqd.NodeFaults{Nodes: nodes, Random: pqd.Seeded(t), Stopped: 3 * time.Second}
			gaps := make(map[string][]time.Duration)
			pushed := pushes{times: make(map[int]int)}
			for range *trials {
				x.Prepare(t, what)
				for who, longest := range pushed.gap(t, x, what) {
					gaps[who] = append(gaps[who], longest)
				}
			}
			for _, who := range slices.Sorted(maps.Keys(gaps)) {
				gaps := gaps[who]
				slices.Sort(gaps)
				t.Logf("%s: %s waited for %s, p50 %s, at most %s", what, who, gaps, gaps[len(gaps)/2], gaps[len(gaps)-1])
			}
		})
	}
}

const (
	every   = 10 * time.Millisecond // between operations of a client
	settled = 6 * time.Second       // behind the last trouble
)

// caller does something again and again.
type caller struct {
	who     string
	do      func(context.Context) error
	end     func()        // nil: there is nothing to end
	longest time.Duration // without a success
}

// call calls until ctx ends. It calls begun behind the first success; the time before that counts for nothing.
func (c *caller) call(t *testing.T, ctx context.Context, begun func()) {
	start := sync.OnceFunc(begun)
	defer start()
	first := true
	for last := time.Now(); ; {
		err := c.do(ctx)
		silence := time.Since(last)
		if !first {
			c.longest = max(c.longest, silence)
		}
		switch {
		case err == nil:
			last, first = time.Now(), false
			start()
		case ctx.Err() != nil:
			return
		case silence > testenv.Patience():
			t.Errorf("%s had no success for %s: %v", c.who, silence, err)
			return
		}
		rest(ctx, every)
	}
}

// rest lets some time pass.
func rest(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// pushes are items that were pushed one after the other, by their numbers.
type pushes struct {
	acknowledged []bool
	times        map[int]int // how often each was popped
	popped       int         // this many are gone if they were acknowledged
}

// gap lets clients work while something happens, at the node that is hit and at another one, and returns how long
// each waited for a success at most.
func (p *pushes) gap(t *testing.T, x *pqd.NodeFaults, what string) map[string]time.Duration {
	t.Helper()
	hit := x.Nodes.Active(t)
	if what == pqd.LeaderKilled || what == pqd.LeaderStopped {
		hit = x.Leader()
	}
	var callers []*caller
	var last *client.Queue
	for _, place := range []string{"beside the hit node", "at the hit node"} {
		var urls []string
		for _, n := range x.Nodes.All {
			if (n == hit) == (place == "at the hit node") {
				urls = append([]string{n.URL}, urls...)
			} else {
				urls = append(urls, n.URL)
			}
		}
		// As docs/clients.md says.
		nc, err := nats.Connect(strings.Join(urls, ","), nats.DontRandomize(), nats.MaxReconnects(-1), nats.ReconnectWait(100*time.Millisecond),
			nats.Timeout(500*time.Millisecond), nats.PingInterval(400*time.Millisecond), nats.MaxPingsOutstanding(2), nats.ReconnectBufSize(-1))
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		c, err := client.New(nc)
		if err != nil {
			t.Fatal(err)
		}
		leased := c.Queue("leased-" + strconv.Itoa(len(callers)))
		callers = append(callers, &caller{who: "nats.go " + place, do: func(ctx context.Context) error {
			ctx, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
			defer cancel()
			reply, err := nc.RequestWithContext(ctx, "pq.raw.push", []byte("x"))
			if err == nil && reply.Header.Get("Nats-Service-Error-Code") != "" {
				err = errors.New(reply.Header.Get("Nats-Service-Error"))
			}
			return err
		}}, &caller{who: "a lease " + place, do: func(ctx context.Context) error {
			if _, err := leased.Push(ctx, []byte("x")); err != nil {
				return err
			}
			item, err := leased.Pop(ctx, client.Min, client.Lease(time.Minute), client.Repeatable())
			if err == nil {
				err = item.Ack(ctx)
			}
			return err
		}})
		callers = append(callers, pushers(t, place, strings.Join(urls, ","))...)
		last = c.Queue("q")
	}
	callers = append(callers, &caller{who: "a push at the hit node", do: func(ctx context.Context) error {
		_, err := last.Push(ctx, []byte(strconv.Itoa(len(p.acknowledged))))
		p.acknowledged = append(p.acknowledged, err == nil)
		return err
	}})
	ctx, stop := context.WithCancel(t.Context())
	var calling, begun sync.WaitGroup
	for _, c := range callers {
		begun.Add(1)
		calling.Go(func() { c.call(t, ctx, begun.Done) })
	}
	begun.Wait()
	rest(ctx, settled) // a node that came back may be silent for longer
	began := time.Now()
	x.Happen(t, what)
	rest(ctx, time.Second) // what happened may still be felt
	stop()
	calling.Wait()
	for _, c := range callers {
		if c.end != nil {
			c.end()
		}
	}
	p.pop(t, last)
	longest := make(map[string]time.Duration)
	var all []string
	for _, c := range callers {
		longest[c.who] = c.longest.Round(time.Millisecond)
		all = append(all, fmt.Sprint(c.who, " ", longest[c.who]))
	}
	t.Logf("%s: %s\n%s", what, strings.Join(all, ", "), timeline(t, x.Nodes, began))
	return longest
}

// steps begin the lines of the log that tell how another node takes over.
var steps = []string{
	"kv/cluster: a member is lost", "kv/cluster: this member is", "kv/cluster: no member may", "a group of the log lacks", "serving", "stopped serving", "stepping down",
	"JetStream cluster new", "drained",
}

// timeline has what the nodes have logged about a takeover since a time.
func timeline(t *testing.T, nodes *testenv.Nodes, since time.Time) string {
	type entry struct {
		at   time.Duration
		text string
	}
	var all []entry
	for i, p := range nodes.All {
		for line := range strings.Lines(p.Log()) {
			var l struct {
				Time time.Time
				Msg  string
			}
			tells := func(step string) bool { return strings.HasPrefix(l.Msg, step) }
			if json.Unmarshal([]byte(line), &l) != nil || l.Time.Before(since) || !slices.ContainsFunc(steps, tells) {
				continue
			}
			all = append(all, entry{l.Time.Sub(since), fmt.Sprintf("node %d: %s", i, strings.TrimSpace(line))})
		}
	}
	slices.SortFunc(all, func(a, b entry) int { return cmp.Compare(a.at, b.at) })
	var text strings.Builder
	for _, e := range all {
		fmt.Fprintf(&text, "  %6d ms %s\n", e.at.Milliseconds(), e.text)
	}
	return text.String()
}

// pop empties the queue: all items that were acknowledged are there once, in order. The
// others may come at any time, once.
func (p *pushes) pop(t *testing.T, queue *client.Queue) {
	t.Helper()
	last := -1
	for {
		items, err := queue.PopBatch(t.Context(), client.Min, client.MaxMany, client.Repeatable())
		if errors.Is(err, client.ErrEmpty) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, item := range items {
			number, err := strconv.Atoi(string(item.Payload))
			if err != nil {
				t.Fatal(err)
			}
			if p.times[number]++; p.times[number] > 1 {
				t.Errorf("item %d was popped %d times", number, p.times[number])
			}
			if !p.acknowledged[number] {
				continue
			}
			if number < last {
				t.Errorf("item %d was popped behind item %d", number, last)
			}
			last = number
		}
	}
	for ; p.popped < len(p.acknowledged); p.popped++ {
		if p.acknowledged[p.popped] && p.times[p.popped] == 0 {
			t.Errorf("item %d was acknowledged and is lost", p.popped)
		}
	}
}
