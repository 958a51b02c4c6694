package fdbpq_test

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/internal/testkit/fault"
)

// bulk does one page, after the cursor of another one went over the wire.
func (f *fixture) bulk(queue string, b fdbpq.Bulk) (done fdbpq.BulkDone) {
	f.Helper()
	if b.After != nil {
		var err error
		if b.After, err = fdbpq.ParseBulkCursor(b.After.String()); err != nil {
			f.Fatal(err)
		}
	}
	f.update(func(tx kv.Tx) (err error) {
		done, err = f.Queue(queue).Bulk(tx, b)
		return err
	})
	return done
}

// run does all pages, and returns how many items each changed.
func (f *fixture) run(queue string, b fdbpq.Bulk) (pages []int) {
	f.Helper()
	for {
		done := f.bulk(queue, b)
		if done.Err != nil || done.Stopped != nil {
			f.Fatalf("%v, %v", done.Err, done.Stopped)
		}
		pages = append(pages, done.Done)
		if b.After = done.Next; b.After == nil {
			return pages
		}
		if len(pages) > 10_000 {
			f.Fatal("the operation does not end")
		}
	}
}

// deadLetters pushes items to a queue, and gives them up for a reason.
func (f *fixture) deadLetters(queue, reason string, items ...fdbpq.NewItem) {
	f.Helper()
	for len(items) > 0 {
		n := min(len(items), 100)
		f.push(queue, items[:n]...)
		items = items[n:]
		f.kill(queue, reason, n)
	}
}

func (f *fixture) kill(queue, reason string, n int) {
	f.Helper()
	if n == 0 {
		return
	}
	leased := f.lease(queue, fdbpq.Min, n, time.Minute)
	f.together(func(tx kv.Tx, w *fdbpq.Work) error {
		for _, item := range leased.Items {
			if _, err := w.Queue(queue).Terminate(tx, *item.Lease, reason); err != nil {
				return err
			}
		}
		return nil
	})
}

// An operation is refused that makes no sense, and one without a queue.
func TestBulkIsChecked(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		f.pushed("q", 0, "x")
		for what, b := range map[string]fdbpq.Bulk{
			"verb":        {Verb: fdbpq.BulkRequeue + 1},
			"limit":       {Limit: fdbpq.MaxBulk + 1},
			"no limit":    {Limit: -1},
			"state":       {Where: fdbpq.Where{State: "dead"}},
			"ready lease": {Verb: fdbpq.BulkRevoke, Where: fdbpq.Where{State: fdbpq.StateReady}},
			"holder":      {Where: fdbpq.Where{Holder: "w"}},
			"spread":      {Verb: fdbpq.BulkRequeue, Spread: fdbpq.MaxDelay + 1},
			"delay":       {Verb: fdbpq.BulkRevoke, Revoke: fdbpq.Revocation{Delay: new(time.Duration(-1))}},
		} {
			if err := f.fails(func(tx kv.Tx) error {
				_, err := f.Queue("q").Bulk(tx, b)
				return err
			}); err == nil {
				t.Errorf("%s: no error", what)
			}
		}
		if err := f.fails(func(tx kv.Tx) error {
			_, err := f.Queue("none").Bulk(tx, fdbpq.Bulk{Limit: 1})
			return err
		}); !errors.Is(err, fdbpq.ErrNoQueue) {
			t.Errorf("without a queue: %v", err)
		}
	})
	for _, s := range []string{"", "x", "AAAA", "AAA\n", "!", (&fdbpq.BulkCursor{}).String() + "AA"} {
		if c, err := fdbpq.ParseBulkCursor(s); err == nil {
			t.Errorf("%q is the cursor %+v", s, c)
		}
	}
}

// A page changes as many items as it may, of as many bytes as it may, and looks at as many as it
// may. One item of the largest size fits.
func TestBulkPageIsBounded(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		f.fill("many", 1001, fdbpq.NewItem{Key: "k"})
		if got := f.run("many", fdbpq.Bulk{Verb: fdbpq.BulkMove, Priority: -5, Limit: fdbpq.MaxBulk}); !slices.Equal(got, []int{500, 500, 1}) {
			t.Errorf("pages of %v", got)
		}
		if got := f.run("many", fdbpq.Bulk{Limit: 400}); !slices.Equal(got, []int{400, 400, 201}) {
			t.Errorf("pages of %v", got)
		}
		for range 5 {
			f.push("large", fdbpq.NewItem{Payload: make([]byte, 600_000)})
		}
		f.push("large", fdbpq.NewItem{Payload: make([]byte, fdbpq.MaxContent)}, fdbpq.NewItem{})
		if got := f.run("large", fdbpq.Bulk{Verb: fdbpq.BulkMove, Priority: 1, Limit: 500, DryRun: true}); !slices.Equal(got, []int{7}) {
			t.Errorf("pages of %v: a move copies no content", got)
		}
		leased := f.lease("large", fdbpq.Min, 7, time.Hour)
		if len(leased.Items) < 5 {
			t.Fatalf("leased %d", len(leased.Items))
		}
		f.configure("large", `{"max_deliveries":1}`)
		if got := f.run("large", fdbpq.Bulk{Verb: fdbpq.BulkRevoke, Limit: 500}); len(got) < 2 || got[0] != 3 {
			t.Errorf("pages of %v: it copies what dies", got)
		}
	})
}

// A page looks at no more than 5,000 items.
func TestBulkLooks(t *testing.T) {
	t.Parallel()
	db, err := placeLocal(t)()
	if err != nil {
		t.Fatal(err)
	}
	f := openFixture(t, func() kv.DB { return db })
	f.fill("q", 6000, fdbpq.NewItem{})
	nothing := fdbpq.Bulk{Where: fdbpq.Where{Deliveries: 1}, Limit: 1}
	first := f.bulk("q", nothing)
	nothing.After = first.Next
	if first.Done != 0 || first.Looked != 5000 || first.Next == nil {
		t.Fatalf("a page %+v", first)
	}
	if second := f.bulk("q", nothing); second.Done != 0 || second.Looked != 1000 || second.Next != nil {
		t.Errorf("the next %+v", second)
	}
}

// The items of the largest size go back with their attempts, and so do small ones beside them.
func TestBulkRequeueOfLargeItems(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		f.configure("q", `{"max_deliveries":16}`)
		headers := []byte("Big: " + strings.Repeat("x", 60_000) + "\r\n")
		large := fdbpq.NewItem{Payload: bytes.Repeat([]byte{0}, fdbpq.MaxContent-len(headers)), Headers: headers, Key: strings.Repeat("k", fdbpq.MaxKey)}
		f.push("q", fdbpq.NewItem{Payload: []byte("small")}, fdbpq.NewItem{Payload: []byte("other")})
		f.push("q", large)
		for range 3 {
			for range 15 {
				lease := f.lease("q", fdbpq.Min, 1, time.Minute).Items[0].Lease
				f.update(func(tx kv.Tx) error {
					_, err := f.Queue("q").Nack(tx, *lease, fdbpq.Nack{Reason: strings.Repeat("r", 200)})
					return err
				})
			}
			f.kill("q", "timeout", 1)
		}
		same := fdbpq.Where{Headers: func(b []byte) bool { return bytes.Equal(b, headers) }}
		if got := f.run("q-dead", fdbpq.Bulk{Verb: fdbpq.BulkRequeue, To: "q", Limit: 500, Where: same}); !slices.Equal(got, []int{1}) {
			t.Errorf("pages of %v by header", got)
		}
		if got := f.run("q-dead", fdbpq.Bulk{Verb: fdbpq.BulkRequeue, To: "q", Limit: 500}); !slices.Equal(got, []int{2}) {
			t.Errorf("pages of %v", got)
		}
		for _, item := range f.lease("q", fdbpq.Min, 1, time.Minute).Items {
			if !bytes.Equal(item.Payload, large.Payload) || !bytes.Equal(item.Headers, headers) || item.Key != large.Key || item.Deliveries != 1 {
				t.Errorf("an item of %d bytes came back", item.Size)
			}
			stored := f.get("q", item.ID)
			if all, err := stored.Attempts.All(); err != nil || len(all) != 13 || all[12].N != 16 || all[12].Outcome != fdbpq.OutcomeTerminated {
				t.Errorf("with the attempts %+v, %v", all, err)
			}
		}
		if n := f.counts("q-dead"); n != (fdbpq.Counts{}) {
			t.Errorf("there are %+v left", n)
		}
	})
}

// A cursor that is older than a purge, or than the queue, is at its end.
func TestBulkCursorAfterPurge(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		for _, end := range []func(string){f.delete, f.purge} {
			f.pushed("q", 0, "a", "b", "c")
			b := fdbpq.Bulk{Limit: 1}
			for _, n := range []int{0, 1} {
				b.Limit = n
				b.After = f.bulk("q", b).Next
			}
			end("q")
			f.pushed("q", 0, "d", "e", "f", "g")
			if done := f.bulk("q", b); done.Done != 0 || done.Next != nil || f.counts("q").Ready != 4 {
				t.Errorf("it goes on: %+v", done)
			}
			f.purge("q")
		}
	})
}

// What came after a run began is passed over, however often its pages are repeated: items that die
// again, and leases that others got.
func TestBulkRunEndsWhereItBegan(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		const items = 20
		f.deadLetters("q", "poison", make([]fdbpq.NewItem, items)...)
		b := fdbpq.Bulk{Verb: fdbpq.BulkRequeue, To: "q"}
		b.After = f.bulk("q-dead", b).Next
		b.Limit = 3
		for total := 0; b.After != nil; {
			before := b
			done := f.bulk("q-dead", b)
			f.kill("q", "poison", done.Done)
			again := f.bulk("q-dead", before) // as after an answer that was lost
			f.kill("q", "poison", again.Done)
			b.After = again.Next
			if total += done.Done + again.Done; total > items {
				t.Fatalf("%d of %d items were requeued", total, items)
			}
			if b.After == nil && total != items {
				t.Errorf("%d of %d items were requeued", total, items)
			}
		}
		if n := f.counts("q-dead").Ready; n != items {
			t.Errorf("%d are dead again", n)
		}

		revoke := fdbpq.Bulk{Verb: fdbpq.BulkRevoke}
		f.pushed("q", 0, "x", "y")
		f.leaseOne("q", time.Hour)
		revoke.After = f.bulk("q", revoke).Next
		f.pass(time.Second)
		revoke.Limit = 10
		if done := f.bulk("q", revoke); done.Done != 1 {
			t.Errorf("revoked %+v", done)
		}
		f.lease("q", fdbpq.Min, 2, time.Hour)
		if done := f.bulk("q", revoke); done.Done != 0 || done.Looked != 2 {
			t.Errorf("a repeated page revokes %+v", done)
		}
	})
}

// What an operation does to an item is what the request for one item does, also to those that were
// moved, wait, have a unique value or a key with limits, or are past their TTL.
func TestBulkOfAllKindsOfItems(t *testing.T) {
	t.Parallel()
	kinds := []fdbpq.NewItem{
		{Unique: "u", Payload: []byte("unique")},
		{Key: "k", Payload: []byte("of a key")},
		{Key: "k", Payload: []byte("second of it"), Weight: 5},
		{TTL: time.Second, Payload: []byte("past its TTL")},
		{Payload: bytes.Repeat([]byte("large"), 40_000), Unique: "v", UniqueUntilLeased: true},
		{Delay: time.Hour, Key: "k", Unique: "w", Payload: []byte("delayed")},
		{Payload: []byte("moved")},
	}
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		f.configure("q", `{"key_limit":1,"key_order":true,"fair":"priority","key_rate":"100/1s","backoff":"","dead_letter_expired":true}`)
		f.configure("q-dead", `{"key_limit":1,"ttl":"1h"}`)
		fill := func() {
			pushed := f.push("q", kinds...)
			last := pushed[len(pushed)-1].ID
			for _, priority := range []int64{7, math.MinInt64, 7} {
				f.update(func(tx kv.Tx) error {
					_, err := f.Queue("q").Move(tx, last, priority)
					return err
				})
			}
			f.pass(time.Second)
		}
		everything := func(b fdbpq.Bulk) (n int) {
			for _, state := range []fdbpq.State{fdbpq.StateReady, fdbpq.StateDelayed, fdbpq.StateLeased} {
				b.Limit, b.Where.State = 2, state
				dry := b
				dry.DryRun = true
				want := f.run("q", dry)
				got := f.run("q", b)
				if sum(got) != sum(want) {
					t.Errorf("%s: %v in a dry run, then %v", state, want, got)
				}
				n += sum(got)
			}
			return n
		}
		fill()
		f.lease("q", fdbpq.Min, 1, time.Hour)
		if n := everything(fdbpq.Bulk{Verb: fdbpq.BulkMove, Priority: 3}); n != len(kinds) {
			t.Errorf("moved %d", n)
		}
		if n := everything(fdbpq.Bulk{Verb: fdbpq.BulkRemove}); n != len(kinds) {
			t.Errorf("removed %d", n)
		}
		if n := f.counts("q"); n != (fdbpq.Counts{}) {
			t.Errorf("there are %+v left", n)
		}
		fill()
		for i, again := range f.push("q", kinds[0], kinds[5]) {
			if !again.Duplicate {
				t.Errorf("value %d is not unique: %+v", i, again)
			}
		}
		f.configure("q", `{"key_limit":0,"key_order":false,"fair":"","key_rate":"","max_deliveries":1}`)
		f.pass(time.Hour)
		f.sweep() // one dies of its age, another one is ready
		f.lease("q", fdbpq.Min, 100, time.Hour)
		if n := sum(f.run("q", fdbpq.Bulk{Verb: fdbpq.BulkRevoke, Limit: 500})); n != len(kinds)-1 || f.counts("q").Ready != int64(n) {
			t.Errorf("revoked %d, and there are %+v", n, f.counts("q"))
		}
		f.lease("q", fdbpq.Min, 100, time.Minute)
		f.pass(time.Minute)
		f.sweep()
		if n := f.counts("q-dead").Ready; n != int64(len(kinds)) {
			t.Errorf("%d are dead", n)
		}
		f.lease("q-dead", fdbpq.Min, 1, time.Minute)
		requeue := fdbpq.Bulk{Verb: fdbpq.BulkRequeue, To: "q", Limit: 500}
		n := sum(f.run("q-dead", requeue))
		requeue.Where.State = fdbpq.StateLeased
		if n += sum(f.run("q-dead", requeue)); n != len(kinds) {
			t.Errorf("%d are requeued", n)
		}
		if n := f.counts("q"); n.Ready != int64(len(kinds)) {
			t.Errorf("there are %+v", n)
		}
		if again := f.push("q", kinds[0]); again[0].Duplicate {
			t.Errorf("a requeued item has its value: %+v", again)
		}
	})
}

func sum(pages []int) (n int) {
	for _, page := range pages {
		n += page
	}
	return n
}

// A requeue is spread over a time by the ids of the dead letters, in which TTLs go on.
func TestBulkRequeueIsSpread(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		f.configure("q", `{"ttl":"90m"}`)
		f.deadLetters("q", "timeout", make([]fdbpq.NewItem, 100)...)
		if n := sum(f.run("q-dead", fdbpq.Bulk{Verb: fdbpq.BulkRequeue, To: "q", Limit: 30, Spread: time.Hour})); n != 100 {
			t.Fatalf("%d are requeued", n)
		}
		f.pass(30 * time.Minute)
		f.sweep()
		if n := f.counts("q"); n.Ready < 20 || n.Ready > 80 || n.Ready+n.Delayed != 100 {
			t.Errorf("after half of the time there are %+v", n)
		}
		f.pass(30 * time.Minute)
		f.sweep()
		if n := f.counts("q"); n.Ready != 100 || n.Expiring != 100 {
			t.Errorf("after all of it there are %+v", n)
		}
	})
}

// A queue that is full stops the operation in front of the item that has no room, whatever its
// overflow: nothing is evicted, and a dry run says so before.
func TestBulkRequeueIntoFullQueue(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		letters := make([]fdbpq.NewItem, 10)
		for i := range letters {
			letters[i] = fdbpq.NewItem{Payload: fmt.Append(nil, i), Priority: 1, HasPriority: true}
		}
		f.deadLetters("q", "timeout", letters...)
		f.pushed("q", 9, "less urgent", "less urgent, too")
		for limit, overflow := range map[string]string{`"max_length":6`: "evict", `"max_bytes":3110`: "refuse"} {
			f.configure("q", `{"max_length":0,"max_bytes":0}`)
			f.configure("q", `{`+limit+`,"overflow":"`+overflow+`"}`)
			b := fdbpq.Bulk{Verb: fdbpq.BulkRequeue, To: "q", Limit: 3, DryRun: true}
			for _, b.DryRun = range []bool{true, false} {
				b.After = nil
				done := 0
				for pages := 0; ; pages++ {
					page := f.bulk("q-dead", b)
					done += page.Done
					if b.After = page.Next; page.Stopped != nil {
						break
					}
					if page.Next == nil || pages > 10 {
						t.Fatalf("%s does not stop it: %+v", limit, page)
					}
				}
				if done != 4 {
					t.Errorf("%s: %d were requeued, dry run: %t", limit, done, b.DryRun)
				}
			}
			if page := f.bulk("q-dead", b); page.Done != 0 || !errors.Is(page.Stopped, fdbpq.ErrFull) || page.Looked != 1 {
				t.Errorf("again: %+v", page)
			}
			if n := f.counts("q"); n.Ready != 6 {
				t.Errorf("%s: there are %+v", limit, n)
			}
			f.pop("q", fdbpq.Min, 4)
			for range 4 {
				f.push("q", fdbpq.NewItem{})
			}
			f.pop("q", fdbpq.Min, 4)
		}
		f.configure("q", `{"max_length":0,"max_bytes":0}`)
		if n := sum(f.run("q-dead", fdbpq.Bulk{Verb: fdbpq.BulkRequeue, To: "q", Limit: 500})); n != 2 {
			t.Errorf("the rest: %d", n)
		}
	})
}

// Several runs of the same operation at a time change each item once, whatever its state and whatever
// faults their commits have.
func TestBulkBesideItself(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		const items = 300
		letters := make([]fdbpq.NewItem, items)
		for i := range letters {
			letters[i].Payload = fmt.Append(nil, i)
		}
		f.deadLetters("q", "timeout", letters...)
		if n := f.together3("q-dead", fdbpq.Bulk{Verb: fdbpq.BulkRequeue, To: "q", Limit: 7}); n != items {
			t.Errorf("%d of %d were requeued", n, items)
		}
		leased := f.lease("q", fdbpq.Min, 1000, time.Hour).Items
		seen := make(map[string]bool)
		for _, item := range leased {
			if seen[string(item.Payload)] {
				t.Errorf("%s is there twice", item.Payload)
			}
			seen[string(item.Payload)] = true
		}
		if len(seen) != items {
			t.Errorf("there are %d", len(seen))
		}
		hour := time.Hour
		if n := f.together3("q", fdbpq.Bulk{Verb: fdbpq.BulkRevoke, Limit: 50, Revoke: fdbpq.Revocation{Delay: &hour}}); n != items {
			t.Errorf("%d of %d were revoked", n, items)
		}
		if n := f.together3("q", fdbpq.Bulk{Verb: fdbpq.BulkRemove, Where: fdbpq.Where{State: fdbpq.StateDelayed}, Limit: 50}); n != items {
			t.Errorf("%d of %d were removed", n, items)
		}
		if n := f.counts("q"); n != (fdbpq.Counts{}) {
			t.Errorf("there are %+v left", n)
		}
	})
}

// together3 runs an operation three times at once, and returns how many items they changed.
func (f *fixture) together3(queue string, b fdbpq.Bulk) (total int) {
	f.Helper()
	f.db.SetChances(fault.Chances{fault.Conflict: 0.2, fault.UnknownDone: 0.1, fault.UnknownNever: 0.1})
	defer f.db.SetChances(nil)
	type result struct {
		n   int
		err error
	}
	results := make(chan result)
	for range 3 {
		go func() {
			var r result
			session := f.Session()
			defer session.Release()
			for b := b; ; {
				var page fdbpq.BulkDone
				r.err = session.Update(f.Context(), func(tx kv.Tx) (err error) {
					page, err = f.Queue(queue).Bulk(tx, b)
					return err
				})
				if r.n += page.Done; r.err != nil || page.Next == nil {
					results <- r
					return
				}
				b.After = page.Next
			}
		}()
	}
	for range 3 {
		r := <-results
		if total += r.n; r.err != nil {
			f.Error(r.err)
		}
	}
	return total
}

// A bulk operation that shares a transaction with a push begins behind it.
func TestBulkBehindPush(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		f.pushed("q", 1, "before")
		var done fdbpq.BulkDone
		f.together(func(tx kv.Tx, w *fdbpq.Work) (err error) {
			if _, err = w.Queue("q").Push(tx, fdbpq.NewItem{Payload: []byte("beside")}); err == nil {
				done, err = w.Queue("q").Bulk(tx, fdbpq.Bulk{Verb: fdbpq.BulkRemove, Limit: fdbpq.MaxBulk})
			}
			return err
		})
		if done.Done != 2 {
			t.Errorf("%+v, expected both items", done)
		}
	})
}

// A revoke and a pop beside it both go on: the lease that the pop gives meanwhile stays, and what
// the revoke brings back is for the next pop. A revoke that begins later ends that lease, too.
func TestBulkRevokeBesidePop(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		other := f.another(0)
		f.pushed("q", 0, "urgent")
		f.pushed("q", 1, "other")
		f.leaseOne("q", time.Hour)
		revoke := fdbpq.Bulk{Verb: fdbpq.BulkRevoke, Limit: fdbpq.MaxBulk}
		reruns := f.db.Stats().Reruns
		var beside []string
		f.beside(func() { beside = payloads(other.lease("q", fdbpq.Min, 1, time.Hour).Items) })
		done := f.bulk("q", revoke)
		if !slices.Equal(beside, []string{"other"}) || done.Done != 1 || done.Looked != 1 {
			t.Errorf("a pop leased %q beside %+v", beside, done)
		}
		if n := f.db.Stats().Reruns - reruns; n > 0 {
			t.Errorf("the page ran again %d times for an item that is not its own", n)
		}
		if got := payloads(f.lease("q", fdbpq.Min, 1, time.Hour).Items); !slices.Equal(got, []string{"urgent"}) {
			t.Errorf("the next pop leased %q", got)
		}
		if done := f.bulk("q", revoke); done.Done != 2 {
			t.Errorf("a revoke behind both leases: %+v", done)
		}
		f.sound()
	})
}
