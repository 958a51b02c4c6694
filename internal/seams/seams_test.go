package seams

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestCount(t *testing.T) {
	all, err := Count("./testdata/knot")
	if err != nil {
		t.Fatal(err)
	}
	if len(all) != 1 {
		t.Fatalf("%d packages: expected one", len(all))
	}
	p := all[0]
	if p.Files != 5 || p.Exported != 10 || p.Circle != 2 || len(p.Upward) != 1 {
		t.Errorf("%+v: expected 5 files, 10 exported names, 2 files in a circle, and a use upwards", p)
	}
	if mutual := fmt.Sprint(p.Mutual); mutual != "[[item.go queue.go]]" {
		t.Errorf("mutual: %s", mutual)
	}
	if scattered := fmt.Sprint(p.Scattered); scattered != "[[Queue list.go queue.go]]" {
		t.Errorf("scattered: %s: expected Queue alone, whose methods lie in two files", scattered)
	}
	if p.Order[0] != "store.go" || p.Order[3] != "list.go" {
		t.Errorf("order %v: expected store.go first, which uses none, and list.go last, which none uses", p.Order)
	}
	if p.Lines != 58 {
		t.Errorf("%d lines: expected 58", p.Lines)
	}
}

func TestCountFails(t *testing.T) {
	if all, err := Count("./testdata/missing"); err == nil {
		t.Errorf("a package that is not there has %v", all)
	}
}

// The order of files whose best order is known is found, wherever they begin.
func TestOrder(t *testing.T) {
	for _, c := range []struct {
		uses   string
		upward int
	}{
		{"b>a c>b d>c e>d", 0},
		{"a>b b>c c>d d>e", 0},
		{"a>b b>a", 1},
		{"a>b b>c c>a", 1},
		{"a>b b>a c>d d>c a>d b>d a>c", 2},
		{"e>a e>b e>c e>d a>e", 1},
		{"a>b b>a c>a c>d d>e e>d", 2},
	} {
		u := make(uses)
		for pair := range strings.FieldsSeq(c.uses) {
			from, to, _ := strings.Cut(pair, ">")
			u.add(from, to)
		}
		order := u.order([]string{"a", "b", "c", "d", "e"})
		if n := len(u.upward(order)); n != c.upward {
			t.Errorf("%s: %d upwards in %v: expected %d", c.uses, n, order, c.upward)
		}
		if again := u.order([]string{"e", "d", "c", "b", "a"}); !slices.Equal(order, again) {
			t.Errorf("%s: %v, then %v", c.uses, order, again)
		}
	}
}
