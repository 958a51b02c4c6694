package rota_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/pqbridge/pqbridge/fdbpq/internal/rota"
)

// add adds entries such as "ACME/jobs/1": owner, queue and name.
func add(t *testing.T, r *rota.Rota[string], entries string) (refused []string) {
	t.Helper()
	for _, e := range strings.Fields(entries) {
		part := strings.Split(e, "/")
		if !r.Add(part[0], part[1], e, e) {
			refused = append(refused, e)
		}
	}
	return refused
}

func next(r *rota.Rota[string], n int) (taken []string) {
	for range n {
		if e, ok := r.Next(); ok {
			taken = append(taken, e)
		}
	}
	return taken
}

func TestTurns(t *testing.T) {
	for name, c := range map[string]struct{ add, first, later, rest string }{
		"a queue keeps its order": {add: "/a/1 /a/2 /a/3", rest: "/a/1 /a/2 /a/3"},
		"queues take turns":       {add: "/a/1 /a/2 /a/3 /b/1 /b/2 /c/1", rest: "/a/1 /b/1 /c/1 /a/2 /b/2 /a/3"},
		"owners take turns, and their queues": {
			add:  "X/a/1 X/a/2 X/b/1 X/c/1 X/d/1 Y/a/1 Y/a/2 Y/a/3",
			rest: "X/a/1 Y/a/1 X/b/1 Y/a/2 X/c/1 Y/a/3 X/d/1 X/a/2",
		},
		"whoever comes waits for a turn of each": {
			add: "X/a/1 X/a/2 X/a/3 Y/b/1 Y/b/2 Y/b/3", first: "X/a/1", later: "Z/c/1 X/d/1",
			rest: "Y/b/1 X/a/2 Z/c/1 Y/b/2 X/d/1 Y/b/3 X/a/3",
		},
		"an entry waits once, and may come again": {add: "/a/1 /a/2 /a/1", first: "/a/1", later: "/a/1 /a/2", rest: "/a/2 /a/1"},
	} {
		t.Run(name, func(t *testing.T) {
			r := rota.New[string](100, 100)
			add(t, r, c.add)
			first := strings.Fields(c.first)
			if got := next(r, len(first)); !slices.Equal(got, first) {
				t.Errorf("the first are %v, expected %v", got, first)
			}
			add(t, r, c.later)
			rest := strings.Fields(c.rest)
			if r.Len() != len(rest) {
				t.Errorf("%d wait, expected %d", r.Len(), len(rest))
			}
			if got := next(r, 100); !slices.Equal(got, rest) || r.Len() != 0 {
				t.Errorf("the rest are %v, expected %v", got, rest)
			}
		})
	}
}

// What is kept is bounded, of a queue and of all; a queue that has nothing there has room for one in any case.
func TestRoom(t *testing.T) {
	r := rota.New[string](3, 5)
	for _, c := range []struct{ add, refused string }{
		{"/a/1 /a/2 /a/3 /a/4", "/a/4"},
		{"/b/1 /b/2 /b/3", "/b/3"},
		{"/c/1 /c/2 /d/1 /b/1", "/c/2"},
	} {
		if got := fmt.Sprint(add(t, r, c.add)); got != "["+c.refused+"]" {
			t.Errorf("of %s there was no room for %s, expected %s", c.add, got, c.refused)
		}
	}
	if got := strings.Join(next(r, 100), " "); got != "/a/1 /b/1 /c/1 /d/1 /a/2 /b/2 /a/3" {
		t.Errorf("those who wait were %s", got)
	}
	if refused := add(t, r, "/a/4 /a/5"); refused != nil || r.Len() != 2 {
		t.Errorf("%d wait, there was no room for %v", r.Len(), refused)
	}
}
