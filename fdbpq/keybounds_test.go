package fdbpq_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// owing is how many keys have rows of tokens, by the queue's word. Each row is one.
func (f *fixture) owing(queue string) (n int64) {
	f.Helper()
	f.view(func(r kv.Reader) error {
		i, err := f.Queue(queue).Inspect(r)
		if i != nil {
			n = i.KeysOwing
		}
		return err
	})
	if rows := f.rows("kt"); int64(len(rows)) != n {
		f.Errorf("%d keys owe tokens, and there are %d rows", n, len(rows))
	}
	return n
}

// Keys whose items are gone leave rows of tokens behind, as long as they owe some. A queue
// has a bounded number of them: then keys that owe none wait, and others go on. The rows go
// with time and with the queue.
func TestKeysOwing(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		const most = 5
		f := openFixture(t, open)
		fdbpq.LimitKeys(f.Store, most, 100)
		f.configure("q", `{"key_rate":"2/2h"}`)
		key := func(i int) string { return fmt.Sprint("key ", i) }
		var ids []fdbpq.ID
		for i := range 8 {
			ids = append(ids, f.push("q", fdbpq.NewItem{Payload: []byte(key(i)), Key: key(i)})[0].ID)
		}
		for i := range most {
			f.takesNow("q", 1, key(i))
		}
		if n := f.owing("q"); n != most {
			t.Errorf("%d keys owe tokens, expected %d", n, most)
		}
		f.limited("q", fdbpq.ReasonBlocked, time.Minute)
		f.expectWaitsFor("q", ids[6], fdbpq.WaitsForKeyRate)
		f.push("q", fdbpq.NewItem{Payload: []byte("again"), Key: key(1)})
		f.takesNow("q", 1, "again") // it has a row, and a token
		f.purge("q")                // what is owed stays owed
		f.collectGarbage()
		if n := f.owing("q"); n != most {
			t.Errorf("after a purge %d keys owe tokens, expected %d", n, most)
		}
		f.push("q", fdbpq.NewItem{Payload: []byte("new"), Key: "new"}, fdbpq.NewItem{Payload: []byte("without")})
		f.takesNow("q", 9, "without")
		for range 70 {
			f.pass(time.Minute)
			f.sweep()
		}
		if n := f.owing("q"); n != 1 { // two tokens come in two hours
			t.Errorf("after an hour %d keys owe tokens, expected that of two items", n)
		}
		f.takesNow("q", 9, "new")
		f.delete("q")
		f.collectGarbage()
		if n := f.owing("q"); n != 0 {
			t.Errorf("of a deleted queue %d keys owe tokens", n)
		}
		f.configure("q", `{}`)
		if n := f.owing("q"); n != 0 {
			t.Errorf("of a new queue %d keys owe tokens", n)
		}
	})
}

// Rows of tokens are counted whatever writes and clears them.
func TestKeysOwingBySettings(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		f.configure("q", `{"key_rate":"2/2h"}`)
		f.push("q", fdbpq.NewItem{Payload: []byte("a"), Key: "a"}, fdbpq.NewItem{Payload: []byte("b"), Key: "b"})
		f.takesNow("q", 2, "a", "b")
		for _, c := range []struct {
			settings string
			want     int64
		}{{`{"rate":"5/1h"}`, 2}, {`{"rate":"6/1h"}`, 2}, {`{"rate":""}`, 1}, {`{"rate":"5/1h"}`, 1}} {
			f.setKey("q", "a", c.settings)
			if n := f.owing("q"); n != c.want {
				t.Errorf("with %s %d keys owe tokens, expected %d", c.settings, n, c.want)
			}
		}
	})
}

// A queue has a bounded number of keys with settings. One of them can be changed and dropped.
func TestTooManyKeysSet(t *testing.T) {
	t.Parallel()
	base, err := placeLocal(t)()
	if err != nil {
		t.Fatal(err)
	}
	f := openFixture(t, func() kv.DB { return base })
	fdbpq.LimitKeys(f.Store, 100, 2)
	set := func(key, object string) error {
		return f.db.Update(t.Context(), func(tx kv.Tx) error {
			_, err := f.Queue("q").SetKey(tx, key, []byte(object))
			return err
		})
	}
	for _, c := range []struct {
		key, object string
		full        bool
	}{{"a", `{"limit":1}`, false}, {"b", `{"limit":1}`, false}, {"c", `{"limit":1}`, true}, {"b", `{"limit":2}`, false}, {"a", `{"limit":null}`, false}, {"c", `{"limit":1}`, false}} {
		err := set(c.key, c.object)
		var config *fdbpq.ConfigError
		if c.full != (err != nil) || c.full && (!errors.As(err, &config) || !strings.Contains(err.Error(), "2 keys")) {
			t.Errorf("%s %s: %v", c.key, c.object, err)
		}
	}
}
