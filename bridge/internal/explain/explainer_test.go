package explain_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/bridge/internal/explain"
	"github.com/pqbridge/pqbridge/bridge/internal/failure"
	"github.com/pqbridge/pqbridge/bridge/internal/request"
	"github.com/pqbridge/pqbridge/bridge/internal/survey"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/fdbpq/kv/local"
	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/testenv"
)

// world is a store, and what bridges know that the store does not.
type world struct {
	*testing.T
	*fdbpq.Store
	waiting   []fdbpq.Band // of pops that wait at this bridge
	lately    []fdbpq.Band
	asked     time.Time // when the last pop asked
	recent    request.Recent
	began     time.Time // when the bridge began
	full      *failure.Failure
	answers   []string // of the other bridges
	silent    int
	questions int // to the other bridges
	asksThem  bool
}

// begin opens a store that others processes have open, too.
func begin(t *testing.T, others int) *world {
	db, err := local.Open(t.TempDir(), local.Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	w := &world{T: t, Store: testenv.OpenStore(t, db, fdbpq.Options{Exclusive: others == 0}), asksThem: others > 0}
	for range others {
		if err := testenv.OpenStore(t, db, fdbpq.Options{}).Beat(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

func (w *world) Ask(_ context.Context, question []byte, of []string) (answers [][]byte, silent int) {
	if w.questions++; string(question) != "q" && string(question) != "q-dead" {
		w.Errorf("the question is %q", question)
	}
	for _, answer := range w.answers {
		answers = append(answers, []byte(answer))
	}
	if len(of) != len(answers)+w.silent {
		w.Errorf("%d bridges were asked, expected %d", len(of), len(answers)+w.silent)
	}
	return answers, w.silent
}

// explainer is that of a bridge in the world.
func (w *world) explainer() *explain.Explainer {
	x := explain.New(explain.Options{
		Store:   w.Store,
		Waiting: func(string) (int, []fdbpq.Band) { return len(w.waiting), w.waiting },
		Lately:  func(string) ([]fdbpq.Band, time.Time) { return w.lately, w.asked },
		Recent:  func(string) request.Recent { return w.recent }, Began: w.began,
		Full: func(string) *failure.Failure { return w.full },
	})
	if w.asksThem {
		x.AskOthers(w)
	}
	return x
}

// says is the explanation of a queue, or of an item of it.
func (w *world) says(queue string, id *fdbpq.ID) protocol.Explain {
	w.Helper()
	x, q := w.explainer(), w.Queue(queue)
	var e explain.Explained
	err := w.View(w.Context(), func(r kv.Reader) error {
		if id != nil {
			item, err := q.Get(r, *id)
			if err == nil && item == nil {
				err = errors.New("there is no such item")
			}
			if err == nil {
				e, err = x.Item(r, q, item)
			}
			return err
		}
		found, err := survey.Read(r, q, survey.Deep)
		if err == nil {
			e, err = x.Queue(r, q, found)
		}
		return err
	})
	if err != nil {
		w.Fatal(err)
	}
	if e.Open() {
		x.Complete(&e)
	}
	return e.Answer(time.Now())
}

func (w *world) update(fn func(kv.Tx, fdbpq.Queue) error) {
	w.Helper()
	session := w.Session()
	defer session.Release()
	if err := session.Update(w.Context(), func(tx kv.Tx) error { return fn(tx, w.Queue("q")) }); err != nil {
		w.Fatal(err)
	}
}

func (w *world) push(priority int64) fdbpq.ID {
	w.Helper()
	var pushed []fdbpq.Pushed
	w.update(func(tx kv.Tx, q fdbpq.Queue) (err error) {
		pushed, err = q.Push(tx, fdbpq.NewItem{Priority: priority, HasPriority: true})
		return err
	})
	return pushed[0].ID
}

var all = fdbpq.AllPriorities

// Rows, pops that wait, pops of a while ago, and room: each is a fact, and the cause follows.
func TestCauses(t *testing.T) {
	t.Parallel()
	full := &failure.Failure{Code: 429, Text: "the disk is full", Reason: protocol.ReasonStoreFull}
	for name, c := range map[string]struct {
		of     func(w *world) // its facts
		queue  protocol.Cause
		item   protocol.Cause // of the item pushed first, with priority 5
		says   string
		shares []string // bands that are named
	}{
		"nobody asks":          {func(*world) {}, "no_workers", "no_workers", "1 item is ready, and nobody asks for it.", nil},
		"a pop waits":          {func(w *world) { w.waiting = []fdbpq.Band{all} }, "flows", "flows", "Items are handed out.", nil},
		"a pop asked just now": {func(w *world) { w.lately, w.asked = []fdbpq.Band{{Low: 5, High: 5}}, time.Now() }, "flows", "flows", "", nil},
		"a pop asked lately, and one got an item just now": {func(w *world) { w.lately, w.recent.Out = []fdbpq.Band{all}, time.Now() }, "flows", "flows", "", nil},
		"a pop asked half a minute ago": {func(w *world) { w.lately, w.asked = []fdbpq.Band{all}, time.Now().Add(-30*time.Second) },
			"unknown", "unknown", "1 item is ready, and nobody waits for it: the last pop asked 30s ago.", nil},
		"a pop asked half a minute ago, and let leases run out": {func(w *world) {
			w.lately, w.asked = []fdbpq.Band{all}, time.Now().Add(-30*time.Second)
			w.recent.Lost = request.Lost{Holder: "vm-7", Leases: 4, At: time.Now().Add(-20 * time.Second)}
		}, "no_workers", "no_workers", "The last holder, vm-7, let 4 leases run out, the last 20s ago: it hangs, or is gone.Restart that worker", nil},
		"a lease ran out long ago": {func(w *world) { w.recent.Lost = request.Lost{Leases: 1, At: time.Now().Add(-time.Hour)} },
			"no_workers", "no_workers", "The last holder, without a name, let a lease run out, the last 1h0m0s ago", nil},
		"for less urgent ones": {func(w *world) { w.waiting, w.lately = []fdbpq.Band{{Low: 6, High: 9}}, []fdbpq.Band{{Low: 0, High: 4}} },
			"band", "band", "pops ask for 0..4, 6..9", []string{"0..4", "6..9"}},
		"for another item": {func(w *world) { w.push(7); w.waiting = []fdbpq.Band{{Low: 7, High: 7}} }, "flows", "band", "", nil},
		"it is paused": {func(w *world) {
			w.update(func(tx kv.Tx, q fdbpq.Queue) error { return q.Pause(tx) })
		}, "paused", "paused", "Resume the queue.", nil},
		"others are leased": {func(w *world) {
			w.push(1)
			w.update(func(tx kv.Tx, q fdbpq.Queue) error {
				_, err := q.Lease(tx, fdbpq.Selection{Limit: 1, Holders: []string{"ann"}}, time.Hour)
				return err
			})
		}, "leased", "leased", "is that of ann", nil},
		"the store is full, and items flow": {func(w *world) { w.waiting, w.full = []fdbpq.Band{all}, full }, "store_full", "flows", "No push is taken: the disk is full.", nil},
		"the store is full, and nobody asks": {func(w *world) { w.full = full }, "no_workers", "no_workers",
			"1 item is ready, and nobody asks for it; and no push is taken: the disk is full.", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := begin(t, 0)
			id := w.push(5)
			c.of(w)
			got := w.says("q", nil)
			if got.Cause != c.queue || !strings.Contains(got.Text+got.Next, c.says) || !slices.Equal(got.Bands, c.shares) {
				t.Errorf("the queue says %+v, expected %s, and %q", got, c.queue, c.says)
			}
			if got := w.says("q", &id); got.Cause != c.item {
				t.Errorf("the item says %+v, expected %s", got, c.item)
			}
		})
	}
}

// Other bridges are asked where this one knows of no pop, and only there. One that does not say has perhaps pops.
func TestOtherBridges(t *testing.T) {
	t.Parallel()
	const nobody, another, everybody = `{"waiting":0,"bands":null}`, `{"waiting":2,"bands":[{"Low":0,"High":4}]}`, `{"waiting":0,"bands":[{"Low":0,"High":5}],"asked":900}`
	const before, got = `{"waiting":0,"bands":[{"Low":0,"High":5}],"asked":30000}`, `{"waiting":0,"bands":null,"out":9000}`
	const lost = `{"waiting":0,"bands":[{"Low":0,"High":5}],"asked":30000,"lost":{"holder":"vm-7","leases":2,"at":1000}}`
	for _, c := range []struct {
		what    string
		answers []string
		silent  int
		cause   protocol.Cause
		waiting int
	}{
		{"nobody asks anywhere", []string{nobody, nobody}, 0, "no_workers", 0},
		{"somebody asks for others", []string{nobody, another}, 0, "band", 2},
		{"somebody asks", []string{another, everybody}, 0, "flows", 0},
		{"one is silent", []string{nobody}, 1, "unknown", 0},
		{"one is silent, another one asks for others", []string{another}, 1, "unknown", 2},
		{"one is silent, another one asks", []string{everybody}, 1, "flows", 0},
		{"somebody asked there a while ago", []string{nobody, before}, 0, "unknown", 0},
		{"somebody asked there a while ago, and let a lease run out", []string{nobody, lost}, 0, "no_workers", 0},
		{"somebody got an item there", []string{before, got}, 0, "flows", 0},
		{"all are silent", nil, 2, "unknown", 0},
	} {
		t.Run(c.what, func(t *testing.T) {
			t.Parallel()
			w := begin(t, 2)
			id := w.push(5)
			w.answers, w.silent = c.answers, c.silent
			for _, of := range []*fdbpq.ID{nil, &id} {
				if got := w.says("q", of); got.Cause != c.cause || got.Waiting != c.waiting {
					t.Errorf("it says %+v, expected %s with %d pops", got, c.cause, c.waiting)
				}
			}
			w.waiting, w.questions = []fdbpq.Band{all}, 0
			if got := w.says("q", nil); got.Cause != "flows" || w.questions != 0 {
				t.Errorf("a pop waits here: %+v, others were asked %d times", got, w.questions)
			}
		})
	}
}

// What a bridge of another version may say does no harm: it does not count as that nobody asks.
func TestOddAnswers(t *testing.T) {
	t.Parallel()
	w := begin(t, 1)
	id := w.push(5)
	for _, answer := range []string{
		"", "null", "{}", "[]", "1", "{", `"x"`, `{"waiting":null,"bands":[]}`, `{"waiting":-1}`, `{"waiting":1e99}`, `{"waiting":"1"}`, `{"bands":null}`, `{"waiting":3,"bands":[]}`,
		`{"waiting":0,"bands":[null]}`, `{"waiting":0,"bands":[{}]}`, `{"waiting":0,"bands":{"Low":1}}`, `{"waiting":1,"bands":[{"Low":9,"High":1}]}`,
		`{"waiting":0,"bands":[],"asked":-1}`, `{"waiting":0,"bands":[],"out":"now"}`, `{"waiting":0,"bands":[],"acked":9e18}`, `{"waiting":0,"failures":-1}`,
		`{"waiting":0,"lost":{}}`, `{"waiting":0,"lost":{"leases":1}}`, `{"waiting":0,"lost":{"leases":0,"at":1}}`,
		`{"waiting":0,"bands":[{"Low":"1","High":2}]}`, `{"waiting":0,"bands":[{"Low":1e30,"High":2}]}`, strings.Repeat("[", 1<<16),
		`{"waiting":0,"bands":[` + strings.Repeat(`{"Low":6,"High":6},`, 1<<12) + `{"Low":7,"High":7}]}`,
	} {
		w.answers = []string{answer}
		for _, of := range []*fdbpq.ID{nil, &id} {
			got := w.says("q", of)
			if got.Cause != protocol.CauseUnknown && got.Cause != protocol.CauseBand || got.Waiting < 0 || len(got.Bands) > 16 {
				t.Errorf("another bridge says %.100q: %+v", answer, got)
			}
		}
	}
}

// Dead letters wait for a person, whoever asks elsewhere.
func TestDeadLettersWait(t *testing.T) {
	t.Parallel()
	w := begin(t, 1)
	w.push(5)
	w.update(func(tx kv.Tx, q fdbpq.Queue) error {
		leased, err := q.Lease(tx, fdbpq.Selection{Limit: 1}, time.Hour)
		if err == nil {
			_, err = q.Terminate(tx, *leased.Items[0].Lease, "broken")
		}
		return err
	})
	if got := w.says("q-dead", nil); got.Cause != protocol.CauseDeadLetters || w.questions != 0 {
		t.Errorf("the queue says %+v, others were asked %d times", got, w.questions)
	}
	w.waiting = []fdbpq.Band{all}
	if got := w.says("q-dead", nil); got.Cause != protocol.CauseFlows {
		t.Errorf("somebody takes them here: %+v", got)
	}
}

// A bridge tells another one what that one understands.
func TestTell(t *testing.T) {
	t.Parallel()
	w := begin(t, 1)
	w.push(5)
	there := begin(t, 0)
	for _, c := range []struct {
		waiting, lately []fdbpq.Band
		cause           protocol.Cause
	}{
		{nil, nil, "no_workers"}, {[]fdbpq.Band{all}, nil, "flows"}, {nil, []fdbpq.Band{all}, "flows"},
		{[]fdbpq.Band{{Low: 1, High: 1}}, []fdbpq.Band{{Low: 1, High: 1}, {Low: 2, High: 2}}, "band"},
	} {
		there.waiting, there.lately, there.asked = c.waiting, c.lately, time.Now()
		w.answers = []string{string(there.explainer().Tell([]byte("q")))}
		if got := w.says("q", nil); got.Cause != c.cause || got.Waiting != len(c.waiting) && c.cause == "band" {
			t.Errorf("after %s: %+v, expected %s", w.answers, got, c.cause)
		}
	}
}

// Who has asked counts for as long as was said, and the bounds of what is remembered cost the oldest asks.
func TestAsks(t *testing.T) {
	t.Parallel()
	now := time.Now()
	asks := explain.NewAsks(func() time.Time { return now })
	band := func(n int64) fdbpq.Band { return fdbpq.Band{Low: n, High: n} }
	asked := time.Time{}
	lately := func(what string, want ...fdbpq.Band) {
		t.Helper()
		if got, at := asks.Lately("q"); !slices.Equal(got, want) || !at.Equal(asked) {
			t.Errorf("%s: asked for %v at %s, expected %v at %s", what, got, at, want, asked)
		}
	}
	lately("nobody has asked")
	asks.Note("q", band(1), time.Minute)
	asks.Note("q", band(2), time.Hour)
	asks.Note("q", band(2), time.Second)
	asked = now
	now = now.Add(59 * time.Second)
	lately("before a minute is over", band(1), band(2))
	now = now.Add(time.Second)
	lately("a minute later: an ask that lasts for less does not end a longer one", band(2))
	for n := range int64(9) {
		asks.Note("q", band(10+n), time.Minute+time.Duration(n))
	}
	asked = now
	lately("of many bands those that last longest", band(16), band(2), band(17), band(18), band(12), band(13), band(14), band(15))
	for n := range 5000 {
		asks.Note(fmt.Sprint(n), band(1), time.Hour)
	}
	if got, _ := asks.Lately("4999"); len(got) != 1 {
		t.Errorf("the last of many queues was asked for %v", got)
	}
}
