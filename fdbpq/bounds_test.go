package fdbpq

import (
	"fmt"
	"testing"

	"github.com/pqbridge/pqbridge/internal/tuple"
)

// What a process keeps in memory about queues is bounded.
func TestMemoryIsBounded(t *testing.T) {
	t.Parallel()
	state, err := (&queueState{generation: 1, exists: true, config: defaultConfig()}).pack()
	if err != nil {
		t.Fatal(err)
	}
	var states queueStates
	for i := range maxParsedStates + 100 {
		if _, err := states.parse(fmt.Sprint(i), state); err != nil {
			t.Fatal(err)
		}
		if n := len(states.parsed); n != min(i+1, maxParsedStates) {
			t.Fatalf("of %d queues the states of %d are kept, expected %d at most, and no fewer", i+1, n, maxParsedStates)
		}
		if states.last(fmt.Sprint(i)) == nil {
			t.Fatalf("the state of queue %d is not kept, the last one that was read", i)
		}
	}
}

// The row of a queue that lacks settings, because an earlier version wrote it, has their
// defaults.
func TestStateWithoutSettings(t *testing.T) {
	t.Parallel()
	row := tuple.AppendInt(tuple.AppendInt(tuple.AppendInt(nil, stateVersion), 7), 0)
	s, err := parseState(tuple.AppendBytes(row, []byte(`{"priority":3}`)))
	if err != nil {
		t.Fatal(err)
	}
	want := defaultConfig()
	want.Priority = 3
	if fmt.Sprint(s.config) != fmt.Sprint(want) || s.generation != 7 {
		t.Errorf("generation %d, configuration %+v; expected 7, %+v", s.generation, s.config, want)
	}
}

// A remembered pop with an end that there is not is damage.
func TestDamagedPopID(t *testing.T) {
	t.Parallel()
	sound := rememberedPop{due: 1, end: Max, items: 1}
	if m, err := parseRememberedPop(sound.pack()); err != nil || m.end != Max {
		t.Errorf("a sound row: %+v, %v", m, err)
	}
	for _, end := range []int64{int64(Max) + 1, 256, -1} {
		row := tuple.AppendInt(tuple.AppendInt(nil, 1), end)
		for range 4 {
			row = tuple.AppendInt(row, 1)
		}
		if m, err := parseRememberedPop(row); err == nil {
			t.Errorf("end %d is read as %+v", end, m)
		}
	}
}
