package fdbpq_test

import (
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// A pop of a strict queue passes over no item that is there when it commits: it runs again
// after a push in front of what it takes. A pop of another queue does not, unless both
// items have one key.
func TestStrict(t *testing.T) {
	t.Parallel()
	all, band := fdbpq.AllPriorities, fdbpq.Band{Low: 3, High: 9}
	cases := []struct {
		name, config string
		key          string // of the items that are there
		sel          fdbpq.Selection
		pushed       fdbpq.NewItem // while the pop runs
		behind       bool          // the pushed item is not in front
		reruns       bool          // the pop runs again all the same, if it is strict
		always       bool          // the pop runs again, strict or not
	}{
		{name: "min", sel: fdbpq.Selection{Band: &all}, pushed: fdbpq.NewItem{Priority: 1}},
		{name: "behind", sel: fdbpq.Selection{Band: &all}, pushed: fdbpq.NewItem{Priority: 5}, behind: true},
		{name: "max", sel: fdbpq.Selection{End: fdbpq.Max, Band: &all}, pushed: fdbpq.NewItem{Priority: 6}},
		{name: "newest", sel: fdbpq.Selection{End: fdbpq.Max, Band: &all}, pushed: fdbpq.NewItem{Priority: 5}},
		{name: "max of the oldest", config: `{"ties":"oldest"}`, sel: fdbpq.Selection{End: fdbpq.Max, Band: &all}, pushed: fdbpq.NewItem{Priority: 6}},
		{name: "behind the oldest", config: `{"ties":"oldest"}`, sel: fdbpq.Selection{End: fdbpq.Max, Band: &all}, pushed: fdbpq.NewItem{Priority: 5}, behind: true, reruns: true},
		{name: "band", sel: fdbpq.Selection{Band: &band}, pushed: fdbpq.NewItem{Priority: 4}},
		{name: "outside the band", sel: fdbpq.Selection{Band: &band}, pushed: fdbpq.NewItem{Priority: 2}, behind: true},
		{name: "delayed", sel: fdbpq.Selection{Band: &all}, pushed: fdbpq.NewItem{Priority: 1, Delay: time.Hour}, behind: true},
		{name: "key", key: "a", sel: fdbpq.Selection{Band: &all}, pushed: fdbpq.NewItem{Priority: 1, Key: "b"}},
		{name: "keys behind", key: "a", sel: fdbpq.Selection{Band: &all}, pushed: fdbpq.NewItem{Priority: 6, Key: "b"}, behind: true},
		{name: "no key among keys", key: "a", sel: fdbpq.Selection{Band: &all}, pushed: fdbpq.NewItem{Priority: 1}},
		{name: "limit", config: `{"key_limit":9}`, key: "a", sel: fdbpq.Selection{Band: &all}, pushed: fdbpq.NewItem{Priority: 1, Key: "b"}},
		{name: "limit of its key", config: `{"key_limit":9}`, key: "a", sel: fdbpq.Selection{Band: &all}, pushed: fdbpq.NewItem{Priority: 1, Key: "a"}, always: true},
		{name: "limit without a key", config: `{"key_limit":9}`, key: "a", sel: fdbpq.Selection{Band: &all}, pushed: fdbpq.NewItem{Priority: 1}},
		{name: "order", config: `{"key_order":true}`, key: "a", sel: fdbpq.Selection{Band: &all}, pushed: fdbpq.NewItem{Priority: 1, Key: "b"}},
		{name: "turns", config: `{"fair":"priority"}`, key: "a", sel: fdbpq.Selection{Band: &all}, pushed: fdbpq.NewItem{Priority: 1, Key: "b"}},
		{name: "turns without a key", config: `{"fair":"priority"}`, key: "a", sel: fdbpq.Selection{Band: &all}, pushed: fdbpq.NewItem{Priority: 1}},
	}
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		options := f.clock.options(0)
		options.Strict = true
		stores := map[string]*fixture{"not strict": f, "strict queue": f, "strict store": f.opened(options)}
		for name, f := range stores {
			for _, c := range cases {
				queue := name + " " + c.name
				if c.config != "" {
					f.configure(queue, c.config)
				}
				if name == "strict queue" {
					f.configure(queue, `{"strict":true}`)
				}
				strict := name != "not strict"
				got, runs := f.popBesidePush(queue, c.key, c.sel, c.pushed)
				want, wantRuns := "there", 1
				if strict && !c.behind || c.always {
					want = "pushed"
				}
				if want == "pushed" || strict && c.reruns {
					wantRuns = 2
				}
				if len(got) != 1 || got[0] != want || runs != wantRuns {
					t.Errorf("%s: popped %q in %d runs, expected %q in %d", queue, got, runs, want, wantRuns)
				}
			}
		}
	})
}

// popBesidePush pops an item while another one is pushed. It returns what it popped, and in
// how many runs of the transaction.
func (f *fixture) popBesidePush(queue, key string, sel fdbpq.Selection, pushed fdbpq.NewItem) (payloads []string, runs int) {
	f.Helper()
	there := fdbpq.NewItem{Payload: []byte("there"), Priority: 5, HasPriority: true, Key: key}
	pushed.Payload, pushed.HasPriority = []byte("pushed"), true
	sel.Limit = 1
	var popped fdbpq.Popped
	pop := func(tx kv.Tx) (err error) {
		popped, err = f.Queue(queue).Lease(tx, sel, time.Hour)
		return err
	}
	f.push(queue, there, there, there)
	f.update(pop) // so the process knows the queue
	if err := f.ack(*popped.Items[0].Lease); err != nil {
		f.Fatalf("%s: %v", queue, err)
	}
	f.update(func(tx kv.Tx) error {
		if runs++; runs == 1 {
			f.beside(func() { f.push(queue, pushed) })
		}
		return pop(tx)
	})
	for _, item := range popped.Items {
		payloads = append(payloads, string(item.Payload))
	}
	return payloads, runs
}
