package fdbpq

import (
	"fmt"
	"testing"

	"github.com/pqbridge/pqbridge/internal/tuple"
)

// The row of a queue that lacks settings has their defaults.
func TestStateWithoutSettings(t *testing.T) {
	t.Parallel()
	row := tuple.AppendInt(tuple.AppendInt(tuple.AppendInt(nil, stateVersion), 7), 0)
	row = tuple.AppendBytes(row, []byte(`{"priority":3}`))
	for range 5 {
		row = tuple.AppendInt(row, 0)
	}
	s, err := parseState(row)
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
