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

// Names are safe by the sync of their directory, bytes by that of their file,
// and of what is not safe any part may be there.
func TestReplay(t *testing.T) {
	t.Parallel()
	a, b := bytes.Repeat([]byte("a"), 2*sector), bytes.Repeat([]byte("b"), 2*sector)
	events := []Event{
		{Kind: MakeDir, Path: "d", file: directory},
		{Kind: SyncDir, Path: "."},
		{Kind: Create, Path: "d/f", file: 1},
		{Kind: Write, Path: "d/f", file: 1, data: a},
		{Kind: Sync, Path: "d/f", file: 1},
		{Kind: SyncDir, Path: "d"},
		{Kind: Write, Path: "d/f", file: 1, offset: sector, data: b, At: 1},
		{Kind: Rename, Path: "d/f", To: "d/g", file: 1},
		{Kind: Remove, Path: "d/g", file: 1},
		{Kind: SyncDir, Path: "d"},
	}
	show := func(tree Tree) string {
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
	replay := NewReplay(events)
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
	if _, more := NewReplay(nil).Next(); more {
		t.Error("an event of no disk")
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
