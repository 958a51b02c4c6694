package fdbpq_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// Whatever an answer differs in, it differs from what the model says.
func TestEveryDifferenceCounts(t *testing.T) {
	t.Parallel()
	answer := func() outcome {
		var full outcome
		for _, leaf := range leaves(reflect.ValueOf(&full).Elem(), "") {
			leaf.change()
		}
		full.Err = ""
		return full
	}
	if diff := difference(answer(), answer()); diff != "" {
		t.Fatalf("one answer differs from the same one: %s", diff)
	}
	changed := answer()
	for n, leaf := range leaves(reflect.ValueOf(&changed).Elem(), "") {
		got := answer()
		leaves(reflect.ValueOf(&got).Elem(), "")[n].change()
		if difference(answer(), got) == "" || difference(got, answer()) == "" {
			t.Errorf("another %s is no difference", leaf.name)
		}
	}
	for _, c := range [][2]string{{"", "full"}, {"full", ""}, {"full", "time"}} {
		if difference(outcome{Err: c[0]}, outcome{Err: c[1]}) == "" {
			t.Errorf("the error %q is as good as %q", c[1], c[0])
		}
	}
	shown := outcome{Items: []itemView{{Expires: 1}}}
	if diff := difference(outcome{Items: []itemView{{Expires: int64(time.Millisecond)}}}, shown); diff != "" {
		t.Errorf("a time that is shown less than a millisecond off: %s", diff)
	}
	if difference(outcome{Items: []itemView{{Expires: 1 + int64(time.Millisecond)}}}, shown) == "" {
		t.Error("a time that is shown a millisecond off is no difference")
	}
	if kind := kindOf(errors.New("novel")); !strings.Contains(kind, "novel") {
		t.Errorf("an unexpected error counts as %q", kind)
	}
}

// leaf is a plain value within a struct.
type leaf struct {
	name  string
	value reflect.Value
}

// leaves are those of a struct that other packages could see, of slices those of one
// element.
func leaves(v reflect.Value, name string) (all []leaf) {
	switch v.Kind() {
	case reflect.Struct:
		for field, value := range v.Fields() {
			if field.IsExported() {
				all = append(all, leaves(value, name+"."+field.Name)...)
			}
		}
		return all
	case reflect.Slice:
		if v.Len() == 0 {
			v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		}
		return leaves(v.Index(0), name)
	}
	return []leaf{{name, v}}
}

func (l leaf) change() {
	switch l.value.Kind() {
	case reflect.String:
		l.value.SetString(l.value.String() + "x")
	case reflect.Bool:
		l.value.SetBool(!l.value.Bool())
	default:
		l.value.SetInt(l.value.Int() + int64(time.Hour))
	}
}

// A store that holds, or tells, anything else than the model is found out.
func TestModelFindsOut(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		w, err := newWorld(t.Context(), open, 2, 2, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer w.close()
		p := w.processes[0]
		if err := w.do(p, pushOf("a", []pushItem{{payload: "x", delay: time.Hour}})); err != nil {
			t.Fatal(err)
		}
		if err := w.same(p); err != nil {
			t.Fatal(err)
		}
		tamper := func(change func(tx kv.Tx) error) {
			t.Helper()
			if err := w.db.Update(t.Context(), change); err != nil {
				t.Fatal(err)
			}
		}
		expect := func(what string, err error) {
			t.Helper()
			if err == nil {
				t.Errorf("%s is not found out", what)
			}
		}
		p.ahead++
		_, err = w.moment(p)
		expect("a clock that is off by a nanosecond", err)
		p.ahead--
		expect("a row that an empty store has no use for", w.leftovers())
		tamper(func(tx kv.Tx) error {
			_, err := p.store.Queue("b").Push(tx, fdbpq.NewItem{})
			return err
		})
		expect("a queue that nobody made", w.same(p))
		tamper(func(tx kv.Tx) error {
			_, err := p.store.Queue("b").Delete(tx)
			return err
		})
		if err := w.same(p); err != nil {
			t.Fatal(err)
		}
		tamper(func(tx kv.Tx) error { tx.ClearRange([]byte("\x02z\x00"), []byte("\x02z\x01")); return nil })
		expect("a timer that is missing", w.same(p))
	})
}
