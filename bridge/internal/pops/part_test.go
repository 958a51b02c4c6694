package pops

import (
	"errors"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/bridge/internal/codec"
	"github.com/pqbridge/pqbridge/bridge/internal/desk"
	"github.com/pqbridge/pqbridge/bridge/internal/request"
	"github.com/pqbridge/pqbridge/bridge/internal/tenants"
	"github.com/pqbridge/pqbridge/bridge/internal/waiting"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// A pop that makes its transaction fail gets the error if it is an answer. It runs with fewer items if its answer has no room for them,
// however often, and once with fewer bytes if the reason is another one.
func TestMendOfATransaction(t *testing.T) {
	t.Parallel()
	lost := errors.New("the transaction is too large")
	for name, tc := range map[string]struct {
		err              error
		careful, refused bool // before
		others           int
		again            bool
		nowCareful, dies bool // afterwards
	}{
		"no room in the answer":                   {err: errCut, others: 1, again: true},
		"no room in the answer of a careful pop":  {err: errCut, careful: true, again: true, nowCareful: true},
		"an answer":                               {err: fdbpq.ErrPopIDReused, others: 1, again: true, dies: true},
		"an answer to a careful pop":              {err: codec.ErrBundleRoom, careful: true, again: true, nowCareful: true, dies: true},
		"the answer to a pop that was refused":    {err: codec.ErrBundleRoom, refused: true, again: true, nowCareful: true, dies: true},
		"another error":                           {err: lost, again: true, nowCareful: true},
		"another error beside others":             {err: lost, others: 1, nowCareful: true},
		"another error of a careful pop":          {err: lost, careful: true, nowCareful: true},
		"another error of a pop that was refused": {err: kv.ErrTooLarge, refused: true, careful: true, nowCareful: true, dies: true},
	} {
		r := &pop{careful: tc.careful}
		if tc.refused {
			r.refused = codec.ErrTooManyToRepeat
		}
		requests := []desk.Work{r}
		for range tc.others {
			requests = append(requests, new(pop))
		}
		left, again := new(part).Mend(requests, 0, tc.err)
		if len(left) != len(requests) || again != tc.again || r.careful != tc.nowCareful || (r.refused != nil) != tc.dies {
			t.Errorf("%s: %d are left, again: %t; careful: %t, refused for %v", name, len(left), again, r.careful, r.refused)
		}
	}
}

// An error of the transaction as a whole is no pop's.
func TestMendOfTheWhole(t *testing.T) {
	t.Parallel()
	first, second := new(pop), new(pop)
	left, again := new(part).Mend([]desk.Work{first, second}, 2, fdbpq.ErrPopIDReused)
	if len(left) != 2 || again || first.refused != nil || second.refused != nil {
		t.Errorf("%d are left, again: %t", len(left), again)
	}
}

// The bytes of results that a transaction would have kept are the tenant's again at once if it certainly did not happen.
func TestResultsOfATransactionThatFailed(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		result error
		back   bool
	}{
		"it took effect": {nil, false},
		"nobody knows":   {kv.ErrUnknown, false},
		"it failed":      {errors.New("a part failed"), true},
	} {
		one := tenants.New(tenants.Options{
			Quotas: func(string) tenants.Quotas { return tenants.Quotas{Bytes: 10} },
			Count:  func(string) (tenants.Usage, error) { return tenants.Usage{}, nil },
			Now:    time.Now,
		}).Of("t")
		l := &part{transaction: transaction{Desk: &desk.Desk{}, kept: one.Open()}}
		if !l.kept.Keeping()(10) {
			t.Fatalf("%s: the first result is not kept", name)
		}
		l.Close(tc.result)
		if kept := one.Open().Keeping()(1); kept != tc.back {
			t.Errorf("%s: the next result is kept: %t", name, kept)
		}
	}
}

// Waiting pops wait on when their turn could not serve them, and the line then has more to do. New pops go back to the line. Pops that
// the turn has not tried are more to do unless an earlier transaction of the turn has looked for items.
func TestReturnOfPops(t *testing.T) {
	t.Parallel()
	beyond := []fdbpq.Band{{}}
	for name, tc := range map[string]struct {
		tried   bool
		beyond  []fdbpq.Band
		waiting int
		more    bool
	}{
		"new pops":                     {},
		"waiting pops":                 {waiting: 2, more: true},
		"waiting pops, tried":          {waiting: 1, tried: true, more: true},
		"more wait":                    {beyond: beyond, more: true},
		"more wait, others were tried": {beyond: beyond, tried: true},
	} {
		l := &part{Shared: Shared{Waits: NewWaits(WaitsOptions{})}}
		l.tried, l.attempt.Beyond = tc.tried, tc.beyond
		fresh := new(pop)
		requests := []desk.Work{fresh}
		for range tc.waiting {
			r := &pop{asked: true, most: 1, careful: true}
			r.place = waiting.NewPop(waiting.Wait{}, r)
			requests = append(requests, r)
		}
		back, more := l.Return(requests)
		if len(back) != 1 || back[0] != desk.Work(fresh) || more != tc.more {
			t.Errorf("%s: %d go back, more: %t", name, len(back), more)
		}
		for _, w := range requests[1:] {
			if r := w.(*pop); r.asked || r.most > 0 || r.careful {
				t.Errorf("%s: what was learned about the client of a waiting pop, and about items, holds for the next attempt", name)
			}
		}
	}
}

// After a transaction of a turn the queue has a watch if pops wait, and no later one of the turn needs another. Pops beyond those that
// the turn has tried are more to do only if the transaction failed.
func TestTurnAfterItsFirstTransaction(t *testing.T) {
	t.Parallel()
	turn := func() *part {
		l := New(&desk.Desk{Responder: &request.Responder{Stats: request.NewStatistics(nil, 1)}}, Shared{Waits: NewWaits(WaitsOptions{})}).(*part)
		l.attempt.Beyond = []fdbpq.Band{{}}
		return l
	}
	served := turn()
	canceled := false
	served.watch = kv.NewWatch(nil, func() { canceled = true })
	if n, more := served.Answer(nil, nil); n != 0 || more {
		t.Errorf("%d were served, more: %t", n, more)
	}
	if !served.attempt.Watched || !canceled { // nobody waits at the queue any more
		t.Errorf("the queue is watched: %t, the watch is canceled: %t", served.attempt.Watched, canceled)
	}
	if _, more := served.Return(nil); more {
		t.Error("the pops that wait are tried again, although the turn has tried them")
	}
	failed := turn()
	if n, more := failed.Answer(nil, kv.ErrUnavailable); n != 0 || !more {
		t.Errorf("%d were served when the store was away, more: %t", n, more)
	}
}
