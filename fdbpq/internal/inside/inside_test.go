package inside_test

import (
	"context"
	"errors"
	"testing"

	"github.com/pqbridge/pqbridge/fdbpq/internal/inside"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// rows is a transaction that reads what it has written.
type rows struct {
	kv.Tx
	values map[string][]byte
}

func (r rows) Get(key []byte) ([]byte, error) { return r.values[string(key)], nil }

func (r rows) Set(key, value []byte) { r.values[string(key)] = value }

// A task is that of the process that has taken it. Others see until when, unless none can have the store open.
func TestTerm(t *testing.T) {
	t.Parallel()
	tx := rows{values: make(map[string][]byte)}
	one, other, alone := &inside.Store{Process: [16]byte{1}}, &inside.Store{Process: [16]byte{2}}, &inside.Store{Process: [16]byte{3}, Exclusive: true}
	if own, until, err := one.Term(tx, "s"); own || until != 0 || err != nil {
		t.Errorf("nobody's task: own %t, until %d, %v", own, until, err)
	}
	one.Take(tx, "s", 7)
	for _, c := range []struct {
		store *inside.Store
		own   bool
		until int64
	}{{one, true, 7}, {other, false, 7}, {alone, false, 0}} {
		if own, until, err := c.store.Term(tx, "s"); own != c.own || until != c.until || err != nil {
			t.Errorf("process %d: own %t, until %d, %v; expected %t, %d", c.store.Process[0], own, until, err, c.own, c.until)
		}
	}
	if own, until, err := other.Term(tx, "zr"); own || until != 0 || err != nil {
		t.Errorf("another task: own %t, until %d, %v", own, until, err)
	}
	tx.values["\x02s\x00"] = []byte{0xff}
	if _, _, err := one.Term(tx, "s"); err == nil {
		t.Error("a damaged row is read")
	}
}

// The error of a step is a problem, unless its task has been told to end.
func TestStep(t *testing.T) {
	t.Parallel()
	wrong := errors.New("wrong")
	fails := func(context.Context) error { return wrong }
	var problems []error
	problem := func(err error) { problems = append(problems, err) }
	if !inside.Step(t.Context(), problem, func(ctx context.Context) error {
		_, bound := ctx.Deadline()
		return errors.Join(ctx.Err(), map[bool]error{false: wrong}[bound])
	}) {
		t.Error("a step without an error failed, or had no bound")
	}
	if inside.Step(t.Context(), problem, fails) || len(problems) != 1 || problems[0] != wrong {
		t.Errorf("problems %v", problems)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if inside.Step(ended, problem, fails) || len(problems) != 1 {
		t.Errorf("problems %v: expected none behind the end", problems)
	}
}
