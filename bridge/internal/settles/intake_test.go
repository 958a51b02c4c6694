package settles

import (
	"slices"
	"testing"

	"github.com/pqbridge/pqbridge/bridge/internal/desk"
)

// A settlement of a lease starts when the one before it has left, and no earlier. A +NXT leaves when its pop begins to wait, and leaves
// again when the pop ends: by then the place may be another one's.
func TestSettlementsOfALeaseStartInOrder(t *testing.T) {
	t.Parallel()
	var in order
	in.last = make(map[leaseKey]*Place)
	var started []int
	all := make([]*Settlement, 5)
	for i := range all {
		all[i] = &Settlement{number: i}
	}
	submit := func(of ...int) {
		for _, i := range of {
			in.start(&all[i].place, all[i], func(w desk.Work) { started = append(started, w.(*Settlement).number) })
		}
	}
	for _, step := range []struct {
		do      func()
		started []int
	}{
		{func() { submit(0, 1) }, []int{0}},
		{all[0].place.Leave, []int{0, 1}},
		{func() { submit(2) }, []int{0, 1}}, // the second one is under way
		{all[0].place.Leave, []int{0, 1}},
		{all[1].place.Leave, []int{0, 1, 2}},
		{all[2].place.Leave, []int{0, 1, 2}},
		{func() { submit(3) }, []int{0, 1, 2, 3}},
		{all[2].place.Leave, []int{0, 1, 2, 3}},
		{func() { submit(4) }, []int{0, 1, 2, 3}},
		{all[3].place.Leave, []int{0, 1, 2, 3, 4}},
		{all[4].place.Leave, []int{0, 1, 2, 3, 4}},
	} {
		step.do()
		if !slices.Equal(started, step.started) {
			t.Fatalf("%v have started, expected %v", started, step.started)
		}
	}
	if len(in.last) > 0 {
		t.Errorf("%d leases are left, although all settlements have left", len(in.last))
	}
}
