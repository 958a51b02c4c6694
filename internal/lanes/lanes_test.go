package lanes_test

import (
	"fmt"
	"testing"

	"github.com/pqbridge/pqbridge/internal/lanes"
)

// Rights are known of a connection, and of so many queues: who makes queues and deletes them fills no memory.
func TestRights(t *testing.T) {
	t.Parallel()
	connection := uint64(1)
	r := lanes.NewRights(func() uint64 { return connection })
	if _, known := r.Of("jobs"); known {
		t.Error("rights are known before anybody has used them")
	}
	for _, may := range []bool{true, false} {
		r.Set("jobs", may)
		if got, known := r.Of("jobs"); got != may || !known {
			t.Errorf("may: %t, known: %t; expected %t", got, known, may)
		}
	}
	known := func() (n int) {
		for i := range 100_000 {
			if _, is := r.Of(fmt.Sprint("queue-", i)); is {
				n++
			}
		}
		return n
	}
	for i := range 100_000 {
		name := fmt.Sprint("queue-", i)
		r.Set(name, true)
		if may, is := r.Of(name); !may || !is {
			t.Fatalf("%s: may: %t, known: %t", name, may, is)
		}
	}
	if n := known(); n < 1000 || n > 10_000 {
		t.Errorf("the rights on %d queues are known", n)
	}
	connection = 2
	if n := known(); n > 0 {
		t.Errorf("the rights of an earlier connection on %d queues are known", n)
	}
	r.Set("jobs", true)
	if _, is := r.Of("jobs"); !is {
		t.Error("no rights are known on the new connection")
	}
}
