package disk

import (
	"bytes"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// Names are safe by the sync of their directory, bytes by the sync of their file,
// and of what is not safe any part may be there.
func TestReplay(t *testing.T) {
	t.Parallel()
	a, b := bytes.Repeat([]byte("a"), 2*sector), bytes.Repeat([]byte("b"), 2*sector)
	const d, file = 1, 2
	dir, f, g := name{root, "d"}, name{d, "f"}, name{d, "g"}
	events := []Event{
		{Kind: MakeDir, node: d, in: dir},
		{Kind: SyncDir, node: root},
		{Kind: Create, node: file, in: f},
		{Kind: Write, node: file, data: a},
		{Kind: Sync, node: file},
		{Kind: SyncDir, node: d},
		{Kind: Write, node: file, offset: sector, data: b, At: 1},
		{Kind: Rename, node: file, in: f, to: g},
		{Kind: Remove, node: file, in: g},
		{Kind: SyncDir, node: d},
	}
	safe := []string{
		"", "d", "d", "d", "d", "d, d/f a a", "d, d/f a a", "d, d/f a a", "d, d/f a a", "d",
	}
	torn := [][]string{
		{"d"}, {"d"}, {"d, d/f"}, {"d, d/f", "d, d/f a", "d, d/f a a"}, {"d, d/f a a"}, {"d, d/f a a"},
		{"d, d/f a a", "d, d/f a b", "d, d/f a b b"}, {"d, d/g a b b"}, {"d"}, {"d"},
	}
	part := map[int][]string{
		3: {"d", "d, d/f", "d, d/f a", "d, d/f a a", "d, d/f \x00 a"},
		6: {"d, d/f a a", "d, d/f a b", "d, d/f a a b", "d, d/f a b b"},
		8: {"d, d/f a a", "d, d/f a b", "d, d/f a a b", "d, d/f a b b", "d, d/g a a", "d, d/g a b", "d, d/g a a b", "d, d/g a b b", "d"},
	}
	random := rand.New(rand.NewPCG(1, 2))
	replay := NewReplay(events, Strict)
	for n := 0; ; n++ {
		e, more := replay.Next()
		if !more {
			break
		}
		if found := show(replay.Safe()); found != safe[n] {
			t.Errorf("safe after %d: %q, expected %q", n, found, safe[n])
		}
		expect := func(what string, cut func() Tree, expected []string) {
			seen := make(map[string]bool)
			for range 1000 {
				seen[show(cut())] = true
			}
			if found := slices.Sorted(maps.Keys(seen)); !slices.Equal(found, slices.Sorted(slices.Values(expected))) {
				t.Errorf("%s after %d: %q, expected %q", what, n, found, expected)
			}
		}
		expect("torn", func() Tree { return replay.Torn(random, e) }, torn[n])
		if part[n] != nil {
			expect("part", func() Tree { return replay.Part(random) }, part[n])
		}
	}
	if _, more := NewReplay(nil, Strict).Next(); more {
		t.Error("an event of no disk")
	}
}

// show is a tree as text: each file with the first byte of each sector.
func show(tree Tree) string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(tree)) {
		text := name
		for content := tree[name]; len(content) > 0; content = content[sector:] {
			text += " " + string(content[0])
		}
		all = append(all, text)
	}
	return strings.Join(all, ", ")
}

// A move between directories is safe when both are synced. A directory moves with all that is
// in it, whatever its path was.
func TestReplayOfMoves(t *testing.T) {
	t.Parallel()
	const a, b, file = 1, 2, 3
	f := bytes.Repeat([]byte("f"), sector)
	events := []Event{
		{Kind: MakeDir, node: a, in: name{root, "a"}},
		{Kind: MakeDir, node: b, in: name{root, "b"}},
		{Kind: SyncDir, node: root},
		{Kind: Create, node: file, in: name{a, "f"}},
		{Kind: Write, node: file, data: f},
		{Kind: Sync, node: file},
		{Kind: SyncDir, node: a},
		{Kind: Rename, node: file, in: name{a, "f"}, to: name{b, "f"}},
		{Kind: SyncDir, node: b},
		{Kind: SyncDir, node: a},
		{Kind: Remove, node: a, in: name{root, "a"}},
		{Kind: Rename, node: b, in: name{root, "b"}, to: name{root, "c"}},
		{Kind: SyncDir, node: root},
	}
	expected := []string{
		"", "", "a, b", "a, b", "a, b", "a, b", "a, a/f f, b", "a, a/f f, b", "a, a/f f, b", "a, b, b/f f", "a, b, b/f f", "a, b, b/f f", "c, c/f f",
	}
	random := rand.New(rand.NewPCG(3, 4))
	replay := NewReplay(events, Strict)
	for n := range events {
		replay.Next()
		if found := show(replay.Safe()); found != expected[n] {
			t.Errorf("safe after %d: %q, expected %q", n, found, expected[n])
		}
		parts := make(map[string]bool)
		for range 300 {
			parts[show(replay.Part(random))] = true
		}
		switch found := slices.Sorted(maps.Keys(parts)); n {
		case 7, 8: // the file is at one place, never at both or none
			if !slices.Equal(found, []string{"a, a/f f, b", "a, b, b/f f"}) {
				t.Errorf("parts after %d: %q", n, found)
			}
		case 11: // each change or none of them
			if !slices.Equal(found, []string{"a, b, b/f f", "a, c, c/f f", "b, b/f f", "c, c/f f"}) {
				t.Errorf("parts after %d: %q", n, found)
			}
		}
	}
}

// With a journal changes of names become safe in their order, with any sync.
func TestReplayWithJournal(t *testing.T) {
	t.Parallel()
	const d, file, other = 1, 2, 3
	events := []Event{
		{Kind: MakeDir, node: d, in: name{root, "d"}},
		{Kind: Create, node: file, in: name{d, "f"}},
		{Kind: Create, node: other, in: name{root, "g"}},
		{Kind: Write, node: other, data: bytes.Repeat([]byte("g"), sector)},
		{Kind: Rename, node: file, in: name{d, "f"}, to: name{root, "f"}},
		{Kind: Sync, node: other},
	}
	random := rand.New(rand.NewPCG(5, 6))
	replay := NewReplay(events, Journaled)
	for n := range events {
		replay.Next()
		if safe := show(replay.Safe()); safe != "" && n < 5 {
			t.Errorf("safe after %d: %q, expected nothing", n, safe)
		}
		if n != 4 {
			continue
		}
		parts := make(map[string]bool)
		for range 1000 {
			parts[show(replay.Part(random))] = true
		}
		expected := []string{"", "d", "d, d/f", "d, d/f, g", "d, d/f, g g", "d, f, g", "d, f, g g"}
		if found := slices.Sorted(maps.Keys(parts)); !slices.Equal(found, expected) {
			t.Errorf("parts: %q, expected %q", found, expected)
		}
	}
	if safe := show(replay.Safe()); safe != "d, f, g g" {
		t.Errorf("safe after a sync: %q", safe)
	}
}

// A write that is not aligned keeps the sectors it shares with others whole.
func TestSectors(t *testing.T) {
	t.Parallel()
	e := Event{Kind: Write, offset: sector - 2, data: []byte("0123456")}
	for keep, expected := range [][2]string{{"xx", "xxxxx"}, {"01", "xxxxx"}, {"xx", "23456"}, {"01", "23456"}} {
		at := 0
		got := e.applied(bytes.Repeat([]byte("x"), 2*sector), func() bool { at++; return keep>>(at-1)&1 == 1 })
		if string(got[sector-2:sector]) != expected[0] || string(got[sector:sector+5]) != expected[1] {
			t.Errorf("sectors %b kept: %q", keep, got[sector-2:sector+5])
		}
	}
	if got := (Event{Kind: Truncate, size: 3, At: time.Second}).applied([]byte("abcdef"), nil); string(got) != "abc" {
		t.Errorf("truncated to %q", got)
	}
}
