package fdbpq_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/fdbpq/kv/local"
)

// full is a store that has no room while why is an error.
type full struct {
	*fixture
	why error
}

// fullStore opens a store, which has room at first.
func fullStore(t *testing.T) *full {
	f := &full{fixture: openFixture(t, func() kv.DB {
		db, err := local.Open(t.TempDir(), local.Options{NoSync: true})
		if err != nil {
			t.Fatal(err)
		}
		return db
	})}
	options := f.clock.options(0)
	options.Full = func(int64) error { return f.why }
	f.join(options)
	return f
}

// bytes is what the rows of the store take.
func (f *full) bytes() (n int) {
	f.Helper()
	f.view(func(r kv.Reader) error {
		rows, err := r.Range([]byte{0}, []byte{0xff}, kv.RangeOptions{Limit: 1 << 20})
		for _, row := range rows {
			n += len(row.Key) + len(row.Value)
		}
		return err
	})
	return n
}

// grownBytes bounds what an item takes in a store without room beyond what it took when there was some: a lease with the
// name of its holder, a delay or a death, and a row that leads from its id to where it is. A key is in as many rows.
const grownBytes = 400

// Whoever has all rights on a queue of a full store, and works as hard as he can on filling it, makes it grow by a
// bounded number of bytes: it has no more after many requests than after few.
func TestFullStoreStaysSmall(t *testing.T) {
	t.Parallel()
	const items, keys, spare = 60, 10, 8_000
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, seed))
	text := func(n int) string {
		return strings.Repeat(string(rune('a'+random.IntN(26))), n-8) + fmt.Sprintf("%08d", random.IntN(1e8))
	}

	f := fullStore(t)
	fdbpq.SpareBytes(f.Store, spare)
	f.configure("q", `{"hand_over":"q","max_deliveries":4,"max_interruptions":2,"key_rate":"100/1h","attempts":16,"dedup_window":"24h"}`)
	for i := range items {
		item := fdbpq.NewItem{TTL: 20 * time.Hour}
		if i%2 == 0 {
			item.Key = strings.Repeat("k", fdbpq.MaxKey-1) + string(rune('a'+i%keys))
		}
		if i%3 == 0 {
			item.Unique = strings.Repeat("u", 100) + fmt.Sprint(i)
		}
		f.push("q", item)
	}
	f.why = errors.New("no room")
	before := f.bytes()

	hard := hardWork{full: f, random: random, text: text}
	most := before + items*grownBytes + spare
	for _, kinds := range [][]int{
		{lease, nack, giveBack, terminate, revoke, handOver, raise, requeue, move, popNothing},
		{lease, handOver, requeue},
		{lease, terminate},
	} {
		for i := range 600 {
			hard.request(kinds[random.IntN(len(kinds))])
			if i%50 != 0 {
				continue
			}
			if now := f.bytes(); now > most {
				t.Fatalf("%d bytes after %d of the requests %d, %d before: expected at most %d", now, i, kinds, before, most)
			}
		}
	}
	t.Logf("%d bytes before, %d after, at most %d allowed; served %d", before, f.bytes(), most, hard.served)
}

// hardWork is a client that wants the store to grow.
type hardWork struct {
	*full
	random *rand.Rand
	text   func(n int) string
	leases []fdbpq.Item
	served [kinds]int // requests that were not refused
}

// Kinds of requests.
const (
	lease = iota
	nack
	giveBack
	terminate
	revoke
	handOver
	raise
	requeue
	move
	popNothing
	kinds
)

// request makes a request with as many bytes as it may have.
func (w *hardWork) request(kind int) {
	q, dead := w.Queue("q").Full(w.why), w.Queue("q-dead").Full(w.why)
	var item fdbpq.Item
	if kind >= nack && kind <= handOver {
		if len(w.leases) == 0 {
			return
		}
		item = w.leases[w.random.IntN(len(w.leases))]
	}
	delay := time.Duration(w.random.IntN(2)) * time.Minute
	session := w.Session()
	defer session.Release()
	err := session.Update(w.Context(), func(tx kv.Tx) (err error) {
		var found fdbpq.Popped
		var pushed []fdbpq.Pushed
		switch kind {
		case lease:
			sel := fdbpq.Selection{Limit: 1 + w.random.IntN(5), Holders: []string{w.text(fdbpq.MaxHolder)}}
			if w.random.IntN(2) == 0 {
				sel.PopID, sel.Repeated = w.text(fdbpq.MaxMsgID), w.random.IntN(2) == 0
			}
			if found, err = q.Lease(tx, sel, time.Hour); err == nil {
				w.leases = append(w.leases, found.Items...)
			}
		case nack:
			_, err = q.Nack(tx, *item.Lease, fdbpq.Nack{Delay: &delay, Reason: w.text(1000)})
		case giveBack:
			_, err = q.GiveBack(tx, *item.Lease, w.text(1000))
		case terminate:
			_, err = q.Terminate(tx, *item.Lease, w.text(1000))
		case revoke:
			_, err = q.Revoke(tx, item.ID, fdbpq.Revocation{Delay: &delay, Reason: w.text(1000)})
		case handOver:
			pushed, err = q.Push(tx, fdbpq.NewItem{HandOver: item.Lease, Key: w.maybe(fdbpq.MaxKey), Unique: w.maybe(fdbpq.MaxUnique), MsgID: w.maybe(fdbpq.MaxMsgID)})
		case raise:
			pushed, err = q.Push(tx, fdbpq.NewItem{
				Unique: strings.Repeat("u", 100) + fmt.Sprint(3*w.random.IntN(20)), OnConflict: fdbpq.ConflictRaise,
				MsgID: w.maybe(fdbpq.MaxMsgID), Priority: -int64(w.random.IntN(1000)), HasPriority: true,
			})
		case requeue:
			if found, err = dead.Peek(tx, fdbpq.Selection{Limit: 1}); err == nil && len(found.Items) > 0 {
				_, err = dead.Requeue(tx, found.Items[0].ID, "")
			}
		case move:
			if found, err = q.Peek(tx, fdbpq.Selection{Limit: 1}); err == nil && len(found.Items) > 0 {
				_, err = q.Move(tx, found.Items[0].ID, w.random.Int64())
			}
		case popNothing:
			_, err = w.Queue(fmt.Sprint("q", w.random.IntN(3))).PopNothing(tx, fdbpq.Selection{Limit: 1, PopID: w.text(fdbpq.MaxMsgID)}, time.Hour)
		}
		for _, p := range pushed {
			err = errors.Join(err, p.Err)
		}
		return err
	})
	if err == nil {
		w.served[kind]++
	}
	if item.Lease != nil && !errors.Is(err, fdbpq.ErrNoRoom) && !errors.Is(err, w.why) {
		w.leases = slices.DeleteFunc(w.leases, func(other fdbpq.Item) bool { return other.ID == item.ID })
	}
	if w.random.IntN(40) == 0 {
		w.pass(time.Minute)
		w.sweep()
	}
}

// maybe is a text of n bytes, or none.
func (w *hardWork) maybe(n int) string {
	if w.random.IntN(2) == 0 {
		return ""
	}
	return w.text(n)
}
