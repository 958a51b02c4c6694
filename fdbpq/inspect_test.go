package fdbpq_test

import (
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// oldest returns the age of the oldest ready item, and whether another one may be older.
func (f *fixture) oldest(queue string, most int) (age time.Duration, atLeast bool) {
	f.Helper()
	var oldest fdbpq.Oldest
	f.view(func(r kv.Reader) (err error) {
		oldest, err = f.Queue(queue).OldestReady(r, most)
		return err
	})
	if oldest.Pushed.IsZero() {
		return 0, oldest.AtLeast
	}
	return f.Display(f.now()).Sub(oldest.Pushed), oldest.AtLeast
}

// The oldest ready item is found behind more urgent ones and behind less urgent ones,
// with a key and without.
func TestOldestReady(t *testing.T) {
	t.Parallel()
	const most = 4
	for name, tc := range map[string]struct {
		priorities []int64 // in the order of their pushes, a second apart
		keyed      int     // the one of them with a key; -1: none
		take       int     // so many are popped first
		age        int     // seconds
		atLeast    bool
	}{
		"nothing":                           {keyed: -1},
		"one":                               {priorities: []int64{7}, keyed: -1, age: 1},
		"the most urgent":                   {priorities: []int64{-300, -255, 0, 256}, keyed: -1, age: 4},
		"the least urgent":                  {priorities: []int64{256, 0, -255, -300}, keyed: -1, age: 4},
		"in between":                        {priorities: []int64{5, 9, 1}, keyed: -1, age: 3},
		"of one priority":                   {priorities: []int64{3, 3, 3, 3, 3, 3}, keyed: -1, age: 6},
		"the ends of all":                   {priorities: []int64{-1 << 63, 1<<63 - 1, 0}, keyed: -1, age: 3},
		"what is gone is not ready":         {priorities: []int64{1, 2, 3}, keyed: -1, take: 1, age: 2},
		"as many as it looks at":            {priorities: []int64{4, 3, 2, 1}, keyed: -1, age: 4},
		"one more, at the end of pop.max":   {priorities: []int64{5, 4, 3, 2, 1}, keyed: -1, age: 5, atLeast: true},
		"one more, at the end of pop.min":   {priorities: []int64{1, 2, 3, 4, 5}, keyed: -1, age: 5, atLeast: true},
		"one more, which it does not reach": {priorities: []int64{3, 1, 2, 4, 5}, keyed: -1, age: 4, atLeast: true},
		"with a key":                        {priorities: []int64{5, 1, 9}, keyed: 0, age: 3},
		"beside one with a key":             {priorities: []int64{5, 1, 9}, keyed: 2, age: 3},
		"only with a key":                   {priorities: []int64{5}, keyed: 0, age: 1},
	} {
		t.Run(name, func(t *testing.T) {
			eachEngine(t, func(t *testing.T, open func() kv.DB) {
				f := openFixture(t, open)
				for i, priority := range tc.priorities {
					item := fdbpq.NewItem{Priority: priority, HasPriority: true}
					if i == tc.keyed {
						item.Key = "ann"
					}
					f.push("q", item)
					f.pass(time.Second)
				}
				if tc.take > 0 {
					f.pop("q", fdbpq.Min, tc.take)
				}
				age, atLeast := f.oldest("q", most)
				if got := int(age.Round(time.Second).Seconds()); got != tc.age || atLeast != tc.atLeast {
					t.Errorf("the oldest is %ds old, perhaps more: %t; expected %d, %t", got, atLeast, tc.age, tc.atLeast)
				}
			})
		})
	}
}

// Leased and delayed items are not ready. One that returns is as old as it was.
func TestOldestReadyReturns(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		expect := func(want time.Duration) {
			t.Helper()
			if age, _ := f.oldest("q", 64); age.Round(time.Second) != want {
				t.Errorf("the oldest ready item is %s old, expected %s", age, want)
			}
		}
		f.pushed("q", 1, "old")
		f.pass(time.Second)
		f.push("q", fdbpq.NewItem{Payload: []byte("delayed"), Delay: time.Hour})
		item := f.leaseOne("q", time.Minute)
		expect(0)
		f.pass(time.Second)
		f.pushed("q", 0, "new")
		f.pass(time.Second)
		expect(time.Second)
		if err := f.nack(*item.Lease, 0); err != nil {
			t.Fatal(err)
		}
		expect(3 * time.Second)
	})
}

// A lease is as old as the first of its extensions. Those of items that came back are gone.
func TestOldestLease(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		expect := func(most int, want, latest time.Duration, atLeast bool) {
			t.Helper()
			var oldest fdbpq.OldestLease
			f.view(func(r kv.Reader) (err error) {
				oldest, err = f.Queue("q").OldestLease(r, most)
				return err
			})
			if oldest.Age.Round(time.Second) != want || oldest.Latest.Round(time.Second) != latest || oldest.AtLeast != atLeast {
				t.Errorf("the oldest lease is %s old, the latest %s, perhaps more: %t; expected %s, %s, %t", oldest.Age, oldest.Latest, oldest.AtLeast, want, latest, atLeast)
			}
		}
		expect(9, 0, 0, false)
		f.configure("q", `{"attempts":0}`)
		f.pushed("q", 1, "a", "b")
		size := len(f.rows("i")[0].Value)
		first := f.leaseOne("q", time.Hour)
		f.pass(time.Second)
		f.leaseOne("q", time.Hour)
		f.pass(time.Second)
		expect(9, 2*time.Second, time.Second, false)
		if err := f.settle(func(tx kv.Tx) (fdbpq.Settled, error) { return f.Queue("q").Extend(tx, *first.Lease, time.Minute) }); err != nil {
			t.Fatal(err)
		}
		f.pass(time.Second)
		expect(9, 3*time.Second, 2*time.Second, false)
		expect(2, 3*time.Second, 2*time.Second, false)
		expect(1, 3*time.Second, 3*time.Second, true)
		if err := f.nack(*first.Lease, 0); err != nil {
			t.Fatal(err)
		}
		expect(9, 2*time.Second, 2*time.Second, false)
		if row := f.rows("i")[0]; len(row.Value) > size+17 { // a delivery, a fence, and that it was given back
			t.Errorf("an item that came back has %d bytes, expected %d: it remembers its lease", len(row.Value), size+17)
		}
	})
}
