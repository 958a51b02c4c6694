package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/pqbridge/pqbridge/protocol"
)

// paint is a table of operations that no other package has.
var paint = []protocol.Op{
	{Name: "dip", Subject: "<queue>.dip[.<priority>]", Right: protocol.Producer},
	{Name: "look", Subject: "<queue>.look.<end>", Right: protocol.Viewer | protocol.Admin, Again: protocol.Reads},
	{Name: "set hue", Subject: "<queue>.admin.hue.<name>", Right: protocol.Admin},
	{Name: "drop hue", Subject: "<queue>.admin.hue.<name>.drop-all", Right: protocol.Admin},
	{Name: "mix", Subject: "<queue>.admin.mix", Right: protocol.Admin},
	{Name: "pour", Subject: "<queue>.admin.pour", Right: protocol.Admin | protocol.Requeuer},
	{Name: "spot", Subject: "<queue>.spot.<connection>.<id>", Right: protocol.Consumer},
	{Name: "stock", Subject: "_sys.stock", Right: protocol.Viewer, Again: protocol.Reads},
}

// Words make verbs, in the order of the operations, but for those of administrators. What all of a role may do has one pattern.
func TestGrammar(t *testing.T) {
	t.Parallel()
	g, err := newGrammar(paint)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, v := range g.verbs {
		names = append(names, v.name)
	}
	if got, want := strings.Join(names, " "), "Dip LookMin LookMax Spot AdminHue AdminHueDropAll AdminMix AdminPour Event SysStock"; got != want {
		t.Errorf("verbs %s, want %s", got, want)
	}
	for role, want := range map[protocol.Roles][]string{
		protocol.Producer: {"dip", "dip.*"},
		protocol.Consumer: {"spot.*.*"},
		protocol.Requeuer: {"admin.pour"},
		protocol.Viewer:   {"look.*"},
		protocol.Admin:    {"look.*", "admin.hue.>", "admin.*"},
	} {
		if got := g.of(role); !slices.Equal(got, want) {
			t.Errorf("role %b may publish %q, want %q", role, got, want)
		}
	}
	source := verbSource(g)
	for _, part := range []string{
		`form = "dip or dip.<priority>"`, `form = "look.min or look.max"`, `form = "spot.<connection>.<id>"`,
		`form = "admin.hue.<name>, admin.mix or admin.pour"`, `form = "admin.hue.<name>, alone or with drop-all"`,
		`const queueVerbs = "dip, look.min, look.max, spot, admin.hue, admin.mix, admin.pour, event"`,
	} {
		if !strings.Contains(source, part) {
			t.Errorf("the source has no %s", part)
		}
	}
}

// A subject of which nobody could say what it means is an error.
func TestOddSubjects(t *testing.T) {
	t.Parallel()
	for _, odd := range []protocol.Op{
		{Name: "of no queue", Subject: "dip"},
		{Name: "unknown argument", Subject: "<queue>.dry.<hours>"},
		{Name: "argument of all", Subject: "_sys.stock.<id>"},
		{Name: "argument beside words", Subject: "<queue>.look.<id>"},
		{Name: "words beside an argument", Subject: "<queue>.dip.slowly"},
		{Name: "name of nothing", Subject: "<queue>.<name>"},
		{Name: "other roles", Subject: "<queue>.admin.mix", Right: protocol.Viewer},
	} {
		if _, err := newGrammar(append(slices.Clone(paint), odd)); err == nil {
			t.Errorf("%s: %s is no error", odd.Name, odd.Subject)
		}
	}
}
