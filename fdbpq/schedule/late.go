package schedule

import (
	"bytes"
	"math"
	"slices"
	"sync"

	"github.com/pqbridge/pqbridge/fdbpq/internal/damage"
	"github.com/pqbridge/pqbridge/fdbpq/internal/rota"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/internal/tuple"
)

// late are the due index rows that wait for their turn, as far as they were read: those of a burst are more than fit into one
// transaction. Each transaction reads on from where the last one has stopped, and some rows again from the first on: another
// process may have written one there, and of a queue with many rows most were passed over. When the last turn is over nothing is
// kept.
type late struct {
	sync.Mutex
	bounds lateBounds
	turns  *rota.Rota[dueEntry]
	owner  func(queue string) string // nil: all queues have one owner

	ahead, again [shards][]byte // where to read on; nil: nothing was read
	shard        int            // the one that is read again
	partly       bool           // there may be due rows that were not read
}

// lateBounds are how many rows wait, and are read.
type lateBounds struct {
	ofQueue, inAll int
	read           int // by one transaction, and a page of each shard in any case
	page           int // at a time, and again
}

const lateFirst = 17 // rows of each shard that are read at first: of few schedules these are all

// forget has all rows be read anew.
func (l *late) forget() {
	l.turns = rota.New[dueEntry](l.bounds.ofQueue, l.bounds.inAll)
	l.ahead, l.again, l.partly = [shards][]byte{}, [shards][]byte{}, false
}

// more reports whether there may be something to do at once.
func (l *late) more() bool { return l.turns.Len() > 0 || l.partly }

// add has a row wait, and reports whether there is room for it.
func (l *late) add(e dueEntry) bool {
	owner := ""
	if l.owner != nil {
		owner = l.owner(e.home.Queue)
	}
	return l.turns.Add(owner, e.home.Queue, string(e.key), e)
}

// look reads rows that are due by now, and returns when the first of the others is.
func (l *late) look(tx kv.Tx, now int64, damaged *damage.Rows) (earliest int64, err error) {
	if l.turns.Len() == 0 {
		l.forget()
	}
	anew := l.ahead[0] == nil
	if anew {
		for shard := range l.ahead {
			begin, end := tuple.Range(shardPrefix(int64(shard)))
			l.ahead[shard], l.again[shard] = begin, begin
			tx.PrefetchRange(begin, end, kv.RangeOptions{Limit: lateFirst})
		}
	}
	walk := lateWalk{late: l, r: tx.Snapshot(), now: now, damaged: damaged, left: l.bounds.read, earliest: math.MaxInt64}
	for shard := range l.ahead {
		_, end := tuple.Range(shardPrefix(int64(shard)))
		walk.left = max(walk.left, l.bounds.page) // whatever others have
		if l.ahead[shard], err = walk.rows(l.ahead[shard], end, lateFirst); err != nil {
			return 0, err
		}
	}
	l.partly = walk.partly || !anew
	if !anew {
		walk.left = l.bounds.page
		err = l.lookAgain(&walk)
	}
	return walk.earliest, err
}

// lookAgain reads some rows again, shard after shard.
func (l *late) lookAgain(walk *lateWalk) (err error) {
	for range l.again {
		begin, _ := tuple.Range(shardPrefix(int64(l.shard)))
		if l.again[l.shard], err = walk.rows(l.again[l.shard], l.ahead[l.shard], l.bounds.page); err != nil || walk.left <= 0 {
			return err
		}
		l.again[l.shard] = begin
		l.shard = (l.shard + 1) % shards
	}
	return nil
}

// lateWalk reads index rows.
type lateWalk struct {
	*late
	r        kv.Reader
	now      int64
	damaged  *damage.Rows
	left     int // rows that may be read
	earliest int64
	partly   bool // it has passed rows over, or had no rows left
}

// rows has the due rows of a range wait, and returns where to read on. The first read has so many rows.
func (w *lateWalk) rows(begin, end []byte, first int) ([]byte, error) {
	for limit := min(first, w.left); bytes.Compare(begin, end) < 0; limit = min(w.bounds.page, w.left) {
		if limit <= 0 {
			w.partly = true
			break
		}
		rows, err := w.r.Range(begin, end, kv.RangeOptions{Limit: limit})
		if err != nil {
			return nil, err
		}
		w.left -= len(rows)
		for _, pair := range rows {
			if bytes.Compare(pair.Key, begin) < 0 {
				continue // of a queue that was passed over
			}
			if w.damaged.Has(pair.Key) {
				begin = append(slices.Clip(pair.Key), 0)
				continue
			}
			e, err := parseDue(pair.Key)
			if err != nil {
				return nil, damage.Of(pair.Key, "", err)
			}
			if e.due > w.now {
				w.earliest = min(w.earliest, e.due)
				return begin, nil
			}
			if begin = append(slices.Clip(pair.Key), 0); !w.add(e) {
				begin, w.partly = e.behindQueue(), true
			}
		}
		if len(rows) < limit {
			break
		}
	}
	return begin, nil
}
