package cluster

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"testing"
)

// An active member of an old generation is no sign of life, whatever its epoch.
func TestLifeOfOldGeneration(t *testing.T) {
	t.Parallel()
	d := &DB{}
	d.status.head = head{Generation: 2, Epoch: 5}
	for generation, alive := range map[uint64]bool{1: false, 2: true, 3: true} {
		if got := d.showsLife(heartbeat{Role: Active, Generation: generation, Epoch: 9}); got != alive {
			t.Errorf("generation %d: a sign of life: %v, expected %v", generation, got, alive)
		}
	}
}

// What was synced in one generation says nothing of the entries of the next one.
func TestSyncedOfOldGeneration(t *testing.T) {
	t.Parallel()
	var s status
	s.opened(head{Generation: 2, Entry: 1})
	if s.flushed(1, 900); s.synced != 1 {
		t.Errorf("after a sync in generation 1 entries up to %d of generation 2 count as synced", s.synced)
	}
	if s.flushed(2, 3); s.synced != 3 {
		t.Errorf("entries up to %d count as synced, expected 3", s.synced)
	}
}

// A checkpoint of an old generation is not offered in the next one: a member would go over
// to the old one with it.
func TestCheckpointOfOldGeneration(t *testing.T) {
	t.Parallel()
	a := archive{id: "old", at: head{Generation: 1, Entry: 900}}
	if a.current(2, 1) {
		t.Error("a checkpoint of generation 1 is offered in generation 2")
	}
	a.at.Generation = 2
	if !a.current(2, 1) || a.current(2, 902) {
		t.Error("expected the checkpoint to be offered while the log goes on from it")
	}
}

// A copy goes over to a generation whose first record begins with just this copy, and to no
// other one.
func TestFirstRecordOfGeneration(t *testing.T) {
	t.Parallel()
	copied := head{Entry: 9, Hash: [32]byte{7}, Store: id{1}, Generation: 1, Epoch: 3}
	from := base{Member: "a", Generation: 1, Entry: 9, Hash: hex.EncodeToString(copied.Hash[:])}
	for name, c := range map[string]struct {
		change func(*record, *base)
		behind bool // it goes on from another copy
	}{
		"another generation":       {change: func(r *record, _ *base) { r.generation = 3 }},
		"another kind":             {change: func(r *record, _ *base) { r.kind = kindChanges }},
		"another store":            {change: func(r *record, _ *base) { r.store = id{2} }},
		"of an earlier generation": {change: func(_ *record, b *base) { b.Generation = 0 }, behind: true},
		"of another entry":         {change: func(_ *record, b *base) { b.Entry = 8 }, behind: true},
		"of another hash":          {change: func(_ *record, b *base) { b.Hash = "00" }, behind: true},
		"":                         {},
	} {
		r, b := record{store: copied.Store, generation: 2, epoch: 4, kind: kindGenesis}, from
		if c.change != nil {
			c.change(&r, &b)
		}
		payload, err := json.Marshal(b)
		if err != nil {
			t.Fatal(err)
		}
		r.payload = payload
		next, _, err := copied.begin(r.encode(), 2)
		switch {
		case c.change == nil && (err != nil || next.Generation != 2 || next.Entry != 1 || next.Epoch != 4):
			t.Errorf("the first record: %+v, %v", next, err)
		case c.change != nil && (err == nil || errors.Is(err, errBehind) != c.behind):
			t.Errorf("%s: %v", name, err)
		}
	}
}
