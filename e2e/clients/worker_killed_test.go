package clients_test

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/e2e/internal/pqd"
	"github.com/pqbridge/pqbridge/internal/testkit/nightly"
	"github.com/pqbridge/pqbridge/testenv"
)

// away is how long the page about retries has an item stay away after its n-th delivery, with a
// backoff whose factor is 2.
func away(id string, n int, delay, most time.Duration, jitter float64) time.Duration {
	hash := sha256.Sum256([]byte(fmt.Sprintf("%s %d", id, n)))
	u := float64(binary.BigEndian.Uint64(hash[:8])>>11) / (1 << 53)
	d := math.Min(float64(most), float64(delay)*math.Pow(2, float64(n-1))) * (1 - jitter + 2*jitter*u)
	return time.Duration(math.Round(d/float64(time.Millisecond))) * time.Millisecond
}

// A worker that is killed again and again, and one that gives the item back, leave the same
// story: who held it, when the lease ended, and each delay as the backoff says.
func TestWorkerKilled(t *testing.T) {
	t.Parallel()
	nightly.Only(t, "fdbpq has attempts and the backoff by its model, and TestHolders of bridge the holder")
	const kills = 5
	const delay, most, jitter = 200 * time.Millisecond, time.Second, 0.5
	p := testenv.Daemon(t)
	nc := p.Connect(t)
	var events happened
	if _, err := nc.Subscribe("pq.killed.event.*", events.add); err != nil {
		t.Fatal(err)
	}
	ids := make(map[string]string)
	holders := make(map[string][]string)
	for _, queue := range []string{"killed", "returned"} {
		pqd.Request(t, nc, "pq."+queue+".admin.config", `{"backoff":{"delay":"200ms","max":"1s","jitter":0.5}}`)
		ids[queue] = pqd.PushMsg(t, nc, "pq."+queue+".push", "x")
	}
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	pq := testenv.Build(t, "cmd/pq")
	due := make(map[string][]time.Time)
	for n := 1; n <= kills; n++ {
		worker := pqd.Command(t, pq, "consume", "killed", "--lease", "1s", "--", "sh", "-c", "kill -9 $PPID")
		worker.Env = append(os.Environ(), "HOME="+t.TempDir(), "NATS_URL="+p.URL)
		if err := worker.Start(); err != nil {
			t.Fatal(err)
		}
		holders["killed"] = append(holders["killed"], fmt.Sprintf("%s-%d", host, worker.Process.Pid))
		_ = worker.Wait() // it was killed

		holder := fmt.Sprint("w", n)
		holders["returned"] = append(holders["returned"], holder)
		item := pqd.Request(t, nc, "pq.returned.pop.min", "", "PQ-Lease", "1m", "PQ-Wait", "1m", "PQ-Holder", holder)
		if got, want := item.Header.Get("PQ-Backoff"), away(ids["returned"], n, delay, most, jitter); got != want.String() {
			t.Errorf("delivery %d: PQ-Backoff is %s, expected %s", n, got, want)
		}
		pqd.Request(t, nc, item.Reply, "-NAK")
		returns, err := time.Parse(time.RFC3339Nano, pqd.Request(t, nc, "pq.returned.get."+ids["returned"], "").Header.Get("PQ-Not-Before"))
		if err != nil {
			returns = time.Time{} // it is there again already
		}
		due["returned"] = append(due["returned"], returns)
	}
	testenv.Await(t, "no lease is left", func() bool {
		item := pqd.Request(t, nc, "pq.killed.get."+ids["killed"], "")
		due["killed"] = events.due("lease_lost")
		return item.Header.Get("PQ-State") != "leased" && item.Header.Get("PQ-Attempts") == fmt.Sprint(len(due["killed"]))
	})
	for queue, outcome := range map[string]string{"killed": "expired", "returned": "nak"} {
		checkStory(t, nc, queue, ids[queue], outcome, holders[queue], due[queue], func(n int) time.Duration { return away(ids[queue], n, delay, most, jitter) })
	}
	p.Stop(t)
}

// attempt is a lease that an item remembers.
type attempt struct {
	N               int
	Start, End      time.Time
	Holder, Outcome string
}

// attempts reads those of an item, or of a dead letter.
func attempts(t *testing.T, nc *nats.Conn, queue, id string) (all []attempt) {
	t.Helper()
	text := pqd.Request(t, nc, "pq."+queue+".get."+id, `{"attempts":true}`).Header.Get("PQ-Attempts")
	if err := json.Unmarshal([]byte(text), &all); err != nil {
		t.Fatalf("%s: the attempts %q, %v", queue, text, err)
	}
	return all
}

// slack is of the clocks by which times are told.
const slack = 5 * time.Millisecond

// checkStory compares the attempts of an item with who held it, and with when the item was due then, as far as that was
// seen. On a busy machine a worker may lose its lease before it is killed, and get the item again.
func checkStory(t *testing.T, nc *nats.Conn, queue, id, outcome string, holders []string, due []time.Time, away func(n int) time.Duration) {
	t.Helper()
	all := attempts(t, nc, queue, id)
	var held []string
	for _, a := range all {
		held = append(held, a.Holder)
	}
	if len(due) != len(all) || !slices.Equal(slices.Compact(held), holders) {
		t.Fatalf("%s: the holders %v, %d due times, and the attempts %+v", queue, holders, len(due), all)
	}
	for i, a := range all {
		if a.N != i+1 || a.Outcome != outcome {
			t.Errorf("%s: attempt %d is %+v, expected %s", queue, i+1, a, outcome)
		}
		if due[i].IsZero() {
			due[i] = a.End.Add(away(i + 1))
		}
		if got := due[i].Sub(a.End); got < away(i+1)-slack || got > away(i+1)+slack {
			t.Errorf("%s: after attempt %d the item stayed away for %s, expected %s", queue, i+1, got, away(i+1))
		}
		if i+1 < len(all) && all[i+1].Start.Before(due[i].Add(-slack)) {
			t.Errorf("%s: attempt %d began at %s, expected not before %s", queue, i+2, all[i+1].Start, due[i])
		}
		if !a.Start.Before(a.End) {
			t.Errorf("%s: attempt %d lasted from %s to %s", queue, i+1, a.Start, a.End)
		}
	}
}
