package fdbpq_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// report says how far a holder is, and returns whether that was dropped.
func (f *fixture) report(l fdbpq.Lease, text string) (dropped bool) {
	f.Helper()
	err := f.settle(func(tx kv.Tx) (fdbpq.Settled, error) {
		settled, err := f.Queue(l.Queue).Report(tx, l, time.Hour, text)
		dropped = settled.Dropped
		if err == nil && settled.Lease == nil {
			f.Error("a report extends no lease")
		}
		return settled, err
	})
	if err != nil {
		f.Errorf("report: %v", err)
	}
	return dropped
}

// What a holder has said is there for everyone who looks, for the next holder, and where the item goes: until something else is said.
func TestProgressGoesWithTheItem(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		f.configure("q", `{"max_deliveries":3}`)
		id := f.push("q", fdbpq.NewItem{ResultTTL: time.Minute})[0].ID
		is := func(where string, item *fdbpq.Item, text string) {
			t.Helper()
			if item.Progress != text || item.ProgressAt.IsZero() != (text == "") {
				t.Errorf("%s: %q at %s, expected %q", where, item.Progress, item.ProgressAt, text)
			}
		}
		first := f.leaseOne("q", time.Minute)
		is("at first", &first, "")
		f.report(*first.Lease, "1/3")
		is("looked at", &f.get("q", id).Item, "1/3")
		if err := f.settle(func(tx kv.Tx) (fdbpq.Settled, error) { return f.Queue("q").Extend(tx, *first.Lease, time.Minute) }); err != nil {
			t.Fatal(err)
		}
		is("extended", &f.get("q", id).Item, "1/3")
		f.report(*first.Lease, "2/3")
		f.pass(time.Hour)
		f.sweep()
		second := f.leaseOne("q", time.Minute)
		is("behind a lease that ran out", &second, "2/3")
		if err := f.nackPlain(*second.Lease, "no ink"); err != nil {
			t.Fatal(err)
		}
		for f.get("q", id) != nil {
			if err := f.nackPlain(*f.leaseOne("q", time.Minute).Lease, ""); err != nil {
				t.Fatal(err)
			}
		}
		dead := f.leaseOne("q-dead", time.Minute)
		is("dead", &dead, "2/3")
		if err := f.nackPlain(*dead.Lease, ""); err != nil {
			t.Fatal(err)
		}
		again := f.requeue("q-dead", dead.ID, "")
		is("requeued", &f.get("q", again.ID).Item, "2/3")
		stored := f.get("q", again.ID)
		f.imports("other", fdbpq.Import{ID: again.ID, Progress: stored.Progress, ProgressAt: stored.ProgressAt})
		if got := f.get("other", again.ID); got.Progress != "2/3" || !got.ProgressAt.Equal(stored.ProgressAt) {
			t.Errorf("imported: %+v", got)
		}
	})
}

// What may be said, and what is too much.
func TestProgressThatIsRefused(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		f.push("q", fdbpq.NewItem{})
		l := *f.leaseOne("q", time.Minute).Lease
		for text, allowed := range map[string]bool{
			"": false, "a\nb": false, "a\x00": false, "\xff": false, strings.Repeat("x", fdbpq.MaxProgress+1): false,
			"ü": true, `{"page":3}`: true, strings.Repeat("x", fdbpq.MaxProgress): true,
		} {
			err := f.settle(func(tx kv.Tx) (fdbpq.Settled, error) { return f.Queue("q").Report(tx, l, time.Minute, text) })
			if errors.Is(err, fdbpq.ErrProgress) == allowed || allowed && err != nil {
				t.Errorf("%.20q: %v", text, err)
			}
		}
		for _, wrong := range []fdbpq.Import{{Progress: "a\nb"}, {Progress: "x", ProgressAt: time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)}} {
			wrong.ID = f.push("ids", fdbpq.NewItem{})[0].ID
			if err := f.fails(func(tx kv.Tx) error {
				imported, err := f.Queue("imported").Import(tx, wrong)
				if err == nil {
					err = imported[0].Err
				}
				return err
			}); err == nil {
				t.Errorf("imported %+v", wrong)
			}
		}
	})
}

// No lease is lost for want of room: the text is.
func TestProgressWithoutRoom(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		c := crowdedStore(t, open)
		c.configure("q", `{"max_bytes":2000}`)
		id := c.push("q", fdbpq.NewItem{Payload: make([]byte, 1000)})[0].ID
		l := *c.leaseOne("q", time.Minute).Lease
		for _, step := range []struct {
			text    string
			full    error
			dropped bool
			what    string
		}{
			{strings.Repeat("a", 512), nil, false, "is free"},
			{strings.Repeat("b", 1600), nil, false, "is counted, and exceeds the bound by itself"},
			{strings.Repeat("c", 1601), nil, true, "is longer, in a queue that is full"},
			{strings.Repeat("d", 1600), nil, false, "is as long"},
			{strings.Repeat("e", 100), nil, false, "is shorter"},
			{strings.Repeat("f", 101), errors.New("full"), true, "is longer, in a store that is full"},
			{strings.Repeat("g", 100), errors.New("full"), false, "is as long, in a store that is full"},
		} {
			before := c.get("q", id).Progress
			c.why = step.full
			if dropped := c.report(l, step.text); dropped != step.dropped {
				t.Errorf("a text that %s: dropped %t", step.what, dropped)
			}
			want := step.text
			if step.dropped {
				want = before
			}
			if got := c.get("q", id); got.Progress != want || got.State != fdbpq.StateLeased {
				t.Errorf("a text that %s: the item has %.10q…", step.what, got.Progress)
			}
		}
		c.why = nil
		c.sound()
	})
}
