package bridge_test

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/pqbridge/pqbridge/bridge"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/internal/tuple"
)

// saidDB counts the reads of the ready items of keys, and those of them that the transaction
// has said ahead.
type saidDB struct {
	kv.DB

	mu          sync.Mutex
	reads, said int
}

func (db *saidDB) Update(ctx context.Context, fn func(kv.Tx) error) error {
	return db.DB.Update(ctx, func(tx kv.Tx) error { return fn(&sayingTx{Tx: tx, db: db, said: make(map[string]bool)}) })
}

func (db *saidDB) counts() (reads, said int) {
	db.mu.Lock()
	defer db.mu.Unlock()
	return db.reads, db.said
}

type sayingTx struct {
	kv.Tx
	db   *saidDB
	said map[string]bool // ranges
}

func (t *sayingTx) PrefetchRange(begin, end []byte, opts kv.RangeOptions) {
	t.said[fmt.Sprintf("%q %q %v", begin, end, opts)] = true
	t.Tx.PrefetchRange(begin, end, opts)
}

func (t *sayingTx) Range(begin, end []byte, opts kv.RangeOptions) ([]kv.Pair, error) {
	t.read(begin, end, opts)
	return t.Tx.Range(begin, end, opts)
}

func (t *sayingTx) Snapshot() kv.Reader { return sayingReader{t.Tx.Snapshot(), t} }

type sayingReader struct {
	kv.Reader
	tx *sayingTx
}

func (r sayingReader) Range(begin, end []byte, opts kv.RangeOptions) ([]kv.Pair, error) {
	r.tx.read(begin, end, opts)
	return r.Reader.Range(begin, end, opts)
}

func (t *sayingTx) read(begin, end []byte, opts kv.RangeOptions) {
	for _, space := range []string{"kr", "kb"} {
		if bytes.HasPrefix(begin, tuple.AppendString(nil, space)) {
			t.db.mu.Lock()
			defer t.db.mu.Unlock()
			t.db.reads++
			if t.said[fmt.Sprintf("%q %q %v", begin, end, opts)] {
				t.db.said++
			}
			return
		}
	}
}

// A transaction of settlements says ahead what it reads of their keys. Where it pops, too, it
// is in the turns of pops, and otherwise it may be in those of changes.
func TestSettlementsSayWhatTheyRead(t *testing.T) {
	t.Parallel()
	for _, exclusive := range []bool{true, false} {
		t.Run(fmt.Sprintf("exclusive %t", exclusive), func(t *testing.T) {
			t.Parallel()
			db := &saidDB{DB: faulty(t)}
			c := serveOn(t, db, bridge.Options{Exclusive: exclusive})
			c.ask("pq.jobs.admin.config", `{"key_order":true}`)
			for range 2 {
				c.key("ann", "ann")
				c.key("bob", "bob")
			}
			first, second := c.leased("ann"), c.leased("bob")
			for _, settlement := range []struct{ subject, word string }{{first.Reply, "+NXT"}, {second.Reply, "-NAK"}} {
				before, saidBefore := db.counts()
				c.raw(settlement.subject, settlement.word)
				reads, said := db.counts()
				reads, said = reads-before, said-saidBefore
				if reads == 0 || said != reads {
					t.Errorf("%s read %d ranges of the keys, and said %d of them ahead", settlement.word, reads, said)
				}
			}
		})
	}
}
