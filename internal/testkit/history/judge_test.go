package history

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/internal/testkit/patience"
)

const seeds = 60

func TestSoundQueue(t *testing.T) {
	t.Parallel()
	for seed := range uint64(seeds) {
		if findings := Judge(simulate(seed, sound, 300, false), One); len(findings) > 0 {
			t.Fatalf("seed %d: %d findings in the history of a sound queue, the first: %s", seed, len(findings), findings[0])
		}
	}
}

// The judge tells every flaw, and by its own rule, in some of the histories that
// it marks.
func TestFlaws(t *testing.T) {
	t.Parallel()
	for f, rule := range expected {
		t.Run(string(f), func(t *testing.T) {
			t.Parallel()
			told := 0
			for seed := range uint64(seeds) {
				findings := Judge(simulate(seed, f, 300, false), One)
				if slices.ContainsFunc(findings, func(f Finding) bool { return f.Rule == rule }) {
					told++
				}
			}
			if told < seeds/4 {
				t.Errorf("%q was told in %d of %d histories", rule, told, seeds)
			}
		})
	}
}

func op(client int, kind Kind, item string, call, ret time.Duration, change ...func(*Operation)) Operation {
	o := Operation{Client: client, Kind: kind, Item: item, Call: call, Return: ret, Outcome: Done}
	if kind == Pop || kind == Lease || kind == Peek {
		o.End = Min
	}
	for _, c := range change {
		c(&o)
	}
	return o
}

func unknown(o *Operation)    { o.Outcome, o.Return, o.Item = Unknown, Never, "" }
func unanswered(o *Operation) { o.Outcome = Unknown }
func nothing(o *Operation)    { o.Outcome = Nothing }
func repeated(o *Operation)   { o.Repeated = true }
func minute(o *Operation)     { o.Lease, o.Fence = time.Minute, 1 }
func tenSeconds(o *Operation) { o.Lease, o.Fence = 10*time.Second, 1 }
func second(o *Operation)     { o.Fence = 2 } // lease
func behind(o *Operation)     { o.Priority = 1 }
func open(o *Operation)       { o.Outcome, o.Return = Unknown, Never }
func bundled(o *Operation)    { o.Bundle = "bundle" }
func together(o *Operation)   { o.Bundle = "together" }
func fromMax(o *Operation)    { o.End = Max }

func TestJudge(t *testing.T) {
	t.Parallel()
	const s = time.Second
	for _, c := range []struct {
		name    string
		history []Operation
		rules   []Rule
	}{
		{"a pop without an answer may have popped the missing item", []Operation{
			op(1, Push, "a", 1*s, 2*s), op(2, Pop, "", 3*s, 0, unknown),
		}, nil},
		{"and one item only", []Operation{
			op(1, Push, "a", 1*s, 2*s), op(1, Push, "b", 2*s, 3*s), op(2, Pop, "", 3*s, 0, unknown),
		}, []Rule{Lost}},
		{"a push without an answer promises nothing", []Operation{
			op(1, Push, "a", 1*s, 0, func(o *Operation) { o.Outcome, o.Return = Unknown, Never }),
		}, nil},
		{"handed out before the push", []Operation{
			op(1, Push, "a", 5*s, 6*s), op(2, Pop, "a", 1*s, 2*s),
		}, []Rule{Early}},
		{"an acknowledgement that was repeated may have found its first attempt", []Operation{
			op(1, Push, "a", 1*s, 2*s), op(2, Lease, "a", 3*s, 4*s, minute),
			op(2, Ack, "a", 5*s, 6*s, minute, nothing, repeated),
		}, nil},
		{"a refusal while the lease lasts", []Operation{
			op(1, Push, "a", 1*s, 2*s), op(2, Lease, "a", 3*s, 4*s, minute),
			op(2, Ack, "a", 5*s, 6*s, minute, nothing), op(2, Pop, "a", 90*s, 91*s),
		}, []Rule{Revoked}},
		{"a refusal behind the end of the lease", []Operation{
			op(1, Push, "a", 1*s, 2*s), op(2, Lease, "a", 3*s, 4*s, minute),
			op(2, Ack, "a", 70*s, 71*s, minute, nothing), op(2, Pop, "a", 90*s, 91*s),
		}, nil},
		{"an extended lease lasts", []Operation{
			op(1, Push, "a", 1*s, 2*s), op(2, Lease, "a", 3*s, 4*s, minute),
			op(2, Extend, "a", 50*s, 51*s, minute), op(1, Pop, "a", 90*s, 91*s),
		}, []Rule{Overlap}},
		{"a pop that overlaps the acknowledgement of a better item", []Operation{
			op(1, Push, "a", 1*s, 2*s, func(o *Operation) { o.Priority = 1 }),
			op(1, Push, "b", 3*s, 5*s), op(2, Pop, "a", 4*s, 6*s, func(o *Operation) { o.Priority = 1 }), op(2, Pop, "b", 7*s, 8*s),
		}, nil},
		{"a pop behind the acknowledgement of a better item", []Operation{
			op(1, Push, "a", 1*s, 2*s, func(o *Operation) { o.Priority = 1 }),
			op(1, Push, "b", 3*s, 4*s), op(2, Pop, "a", 5*s, 6*s, func(o *Operation) { o.Priority = 1 }), op(2, Pop, "b", 7*s, 8*s),
		}, []Rule{PassedOver}},
		{"an item that was given back keeps its place", []Operation{
			op(1, Push, "a", 1*s, 2*s), op(1, Push, "b", 3*s, 4*s), op(2, Lease, "a", 5*s, 6*s, minute),
			op(2, Nak, "a", 7*s, 8*s, minute), op(2, Pop, "b", 9*s, 10*s), op(2, Pop, "a", 11*s, 12*s),
		}, []Rule{PassedOver}},
		{"a lease without an answer may hide an item", []Operation{
			op(1, Push, "a", 1*s, 2*s), op(2, Lease, "", 3*s, 4*s, minute, func(o *Operation) { o.Outcome = Unknown }),
			op(1, Pop, "", 5*s, 6*s, nothing), op(1, Pop, "a", 100*s, 101*s),
		}, nil},
		{"and one only", []Operation{
			op(1, Push, "a", 1*s, 2*s), op(2, Lease, "", 3*s, 4*s, minute, func(o *Operation) { o.Outcome = Unknown }),
			op(1, Pop, "", 5*s, 6*s, nothing), op(1, Pop, "a", 7*s, 8*s), op(1, Push, "b", 9*s, 10*s), op(1, Pop, "", 11*s, 12*s, nothing),
			op(1, Pop, "b", 100*s, 101*s),
		}, []Rule{NotEmpty, NotEmpty}},
		{"a lease that was given back at the moment of its answer", []Operation{
			op(1, Push, "a", 1*s, 2*s), op(2, Lease, "", 5*s, 5*s, func(o *Operation) { o.Outcome = Unknown }),
			op(1, Pop, "", 5*s, 5*s, nothing), op(1, Pop, "a", 7*s, 8*s),
		}, nil},
		{"handed out, and never pushed", []Operation{op(2, Pop, "a", 1*s, 2*s)}, []Rule{Invented}},
		{"shown, and never pushed", []Operation{op(2, Peek, "a", 1*s, 2*s)}, []Rule{Invented}},
		{"shown before the push", []Operation{
			op(1, Push, "a", 5*s, 6*s), op(2, Peek, "a", 1*s, 2*s), op(2, Pop, "a", 7*s, 8*s),
		}, []Rule{Early}},
		{"a lease is no end", []Operation{
			op(1, Push, "a", 1*s, 2*s), op(2, Lease, "a", 3*s, 4*s, minute),
		}, []Rule{Lost}},
		{"nor is its extension", []Operation{
			op(1, Push, "a", 1*s, 2*s), op(2, Lease, "a", 3*s, 4*s, minute), op(2, Extend, "a", 5*s, 6*s, minute),
		}, []Rule{Lost}},
		{"nor that it was given back", []Operation{
			op(1, Push, "a", 1*s, 2*s), op(2, Lease, "a", 3*s, 4*s, minute), op(2, Nak, "a", 5*s, 6*s, minute),
		}, []Rule{Lost}},
		{"nor an acknowledgement that was refused", []Operation{
			op(1, Push, "a", 1*s, 2*s), op(2, Lease, "a", 3*s, 4*s, minute), op(2, Ack, "a", 70*s, 71*s, minute, nothing),
		}, []Rule{Lost}},
		{"popped twice", []Operation{
			op(1, Push, "a", 1*s, 2*s), op(1, Pop, "a", 3*s, 4*s), op(2, Pop, "a", 5*s, 6*s),
		}, []Rule{Twice}},
		{"leased after a pop", []Operation{
			op(1, Push, "a", 1*s, 2*s), op(1, Pop, "a", 3*s, 4*s), op(2, Lease, "a", 5*s, 6*s, minute),
		}, []Rule{Twice}},
		{"popped after the acknowledgement", []Operation{
			op(1, Push, "a", 1*s, 2*s), op(2, Lease, "a", 3*s, 4*s, minute), op(2, Ack, "a", 5*s, 6*s, minute), op(1, Pop, "a", 7*s, 8*s),
		}, []Rule{Twice}},
		{"leased after the acknowledgement", []Operation{
			op(1, Push, "a", 1*s, 2*s), op(2, Lease, "a", 3*s, 4*s, minute), op(2, Ack, "a", 5*s, 6*s, minute),
			op(1, Lease, "a", 7*s, 8*s, minute, second),
		}, []Rule{Twice}},
		{"and acknowledged again", []Operation{
			op(1, Push, "a", 1*s, 2*s), op(2, Lease, "a", 3*s, 4*s, minute), op(2, Ack, "a", 5*s, 6*s, minute),
			op(1, Lease, "a", 7*s, 8*s, minute, second), op(1, Ack, "a", 9*s, 10*s, minute, second),
		}, []Rule{Twice}},
		{"shown after a pop", []Operation{
			op(1, Push, "a", 1*s, 2*s), op(1, Pop, "a", 3*s, 4*s), op(2, Peek, "a", 5*s, 6*s),
		}, []Rule{Shown}},
		{"shown after the acknowledgement", []Operation{
			op(1, Push, "a", 1*s, 2*s), op(2, Lease, "a", 3*s, 4*s, minute), op(2, Ack, "a", 5*s, 6*s, minute), op(1, Peek, "a", 7*s, 8*s),
		}, []Rule{Shown}},
		{"leased while a lease lasts", []Operation{
			op(1, Push, "a", 1*s, 2*s), op(2, Lease, "a", 3*s, 4*s, minute), op(1, Lease, "a", 10*s, 11*s, minute, second),
			op(1, Ack, "a", 12*s, 13*s, minute, second),
		}, []Rule{Overlap}},
		{"the settlement of an earlier lease ends no later one", []Operation{
			op(1, Push, "a", 1*s, 2*s), op(2, Lease, "a", 3*s, 4*s, minute), op(2, Nak, "a", 5*s, 6*s, minute),
			op(1, Lease, "a", 7*s, 8*s, minute, second), op(2, Ack, "a", 9*s, 10*s, minute, nothing), op(2, Pop, "a", 20*s, 21*s),
		}, []Rule{Overlap}},
		{"giving back is refused while the lease lasts", []Operation{
			op(1, Push, "a", 1*s, 2*s), op(2, Lease, "a", 3*s, 4*s, minute), op(2, Nak, "a", 5*s, 6*s, minute, nothing), op(2, Pop, "a", 90*s, 91*s),
		}, []Rule{Revoked}},
		{"an extension is refused while the lease lasts", []Operation{
			op(1, Push, "a", 1*s, 2*s), op(2, Lease, "a", 3*s, 4*s, minute), op(2, Extend, "a", 5*s, 6*s, minute, nothing), op(2, Pop, "a", 90*s, 91*s),
		}, []Rule{Revoked}},
		{"an acknowledgement holds after the next lease", []Operation{
			op(1, Push, "a", 1*s, 2*s), op(2, Lease, "a", 3*s, 4*s, tenSeconds), op(1, Lease, "a", 20*s, 21*s, minute, second),
			op(2, Ack, "a", 22*s, 23*s, minute),
		}, []Rule{Stale}},
		{"giving back holds after the next lease", []Operation{
			op(1, Push, "a", 1*s, 2*s), op(2, Lease, "a", 3*s, 4*s, tenSeconds), op(1, Lease, "a", 20*s, 21*s, minute, second),
			op(2, Nak, "a", 22*s, 23*s, minute), op(1, Ack, "a", 24*s, 25*s, minute, second),
		}, []Rule{Stale}},
		{"giving back holds after a pop", []Operation{
			op(1, Push, "a", 1*s, 2*s), op(2, Lease, "a", 3*s, 4*s, tenSeconds), op(1, Pop, "a", 20*s, 21*s), op(2, Nak, "a", 22*s, 23*s, minute),
		}, []Rule{Stale}},
		{"an extension holds after the next lease, which it overlaps", []Operation{
			op(1, Push, "a", 1*s, 2*s), op(2, Lease, "a", 3*s, 4*s, tenSeconds), op(1, Lease, "a", 20*s, 21*s, minute, second),
			op(2, Extend, "a", 22*s, 23*s, minute), op(1, Ack, "a", 24*s, 25*s, minute, second),
		}, []Rule{Overlap, Stale}},
		{"a lease passes over", []Operation{
			op(1, Push, "a", 1*s, 2*s, behind), op(1, Push, "b", 3*s, 4*s), op(2, Lease, "a", 5*s, 6*s, minute, behind),
			op(2, Ack, "a", 7*s, 8*s, minute, behind), op(2, Pop, "b", 9*s, 10*s),
		}, []Rule{PassedOver}},
		{"a peek passes over", []Operation{
			op(1, Push, "a", 1*s, 2*s, behind), op(1, Push, "b", 3*s, 4*s), op(2, Peek, "a", 5*s, 6*s, behind),
			op(2, Pop, "b", 7*s, 8*s), op(2, Pop, "a", 9*s, 10*s, behind),
		}, []Rule{PassedOver}},
		{"a pop from the other end passes over", []Operation{
			op(1, Push, "a", 1*s, 2*s), op(1, Push, "b", 3*s, 4*s, behind), op(2, Pop, "a", 5*s, 6*s, fromMax), op(2, Pop, "b", 7*s, 8*s, behind),
		}, []Rule{PassedOver}},
		{"and so within a priority", []Operation{
			op(1, Push, "a", 1*s, 2*s), op(1, Push, "b", 3*s, 4*s), op(2, Pop, "a", 5*s, 6*s, fromMax), op(2, Pop, "b", 7*s, 8*s),
		}, []Rule{PassedOver}},
		{"a lease without an answer hides no item after its end", []Operation{
			op(1, Push, "a", 1*s, 2*s), op(2, Lease, "", 3*s, 4*s, minute, unanswered), op(1, Pop, "", 100*s, 101*s, nothing), op(1, Pop, "a", 102*s, 103*s),
		}, []Rule{NotEmpty}},
		{"nor does one that is known to be over", []Operation{
			op(1, Push, "a", 1*s, 2*s), op(2, Lease, "", 3*s, 4*s, unanswered), op(1, Pop, "", 10*s, 11*s, nothing), op(1, Pop, "a", 12*s, 13*s),
		}, []Rule{NotEmpty}},
		{"nor before its call", []Operation{
			op(1, Push, "a", 1*s, 2*s), op(1, Pop, "", 3*s, 4*s, nothing), op(1, Pop, "a", 5*s, 6*s), op(2, Lease, "", 50*s, 51*s, minute, unanswered),
		}, []Rule{NotEmpty}},
		{"a peek without an answer hides nothing", []Operation{
			op(1, Push, "a", 1*s, 2*s), op(2, Peek, "", 3*s, 0, unknown), op(1, Pop, "", 5*s, 6*s, nothing), op(1, Pop, "a", 7*s, 8*s),
		}, []Rule{NotEmpty}},
		{"a bundle without an answer of which nothing came out", []Operation{
			op(1, Push, "a", 1*s, 0, open, bundled), op(1, Push, "b", 1*s, 0, open, bundled), op(2, Pop, "", 3*s, 4*s, nothing),
		}, nil},
		{"one that came out", []Operation{
			op(1, Push, "a", 1*s, 0, open, bundled), op(1, Push, "b", 1*s, 0, open, bundled), op(2, Pop, "a", 3*s, 4*s), op(2, Pop, "b", 5*s, 6*s),
		}, nil},
		{"a part of one", []Operation{
			op(1, Push, "a", 1*s, 0, open, bundled), op(1, Push, "b", 1*s, 0, open, bundled), op(2, Pop, "a", 3*s, 4*s),
		}, []Rule{Torn}},
		{"a part of one was seen", []Operation{
			op(1, Push, "a", 1*s, 0, open, bundled), op(1, Push, "b", 1*s, 0, open, bundled), op(2, Peek, "a", 3*s, 4*s),
		}, []Rule{Torn}},
		{"a part of one, and a pop without an answer", []Operation{
			op(1, Push, "a", 1*s, 0, open, bundled), op(1, Push, "b", 1*s, 0, open, bundled), op(2, Pop, "a", 3*s, 4*s), op(3, Pop, "", 3*s, 0, unknown),
		}, nil},
		{"an item that was seen hides the others of its bundle from nobody", []Operation{
			op(1, Push, "a", 1*s, 0, open, bundled), op(1, Push, "b", 1*s, 0, open, bundled, behind), op(2, Pop, "a", 3*s, 4*s),
			op(2, Pop, "", 5*s, 6*s, nothing), op(2, Pop, "b", 7*s, 8*s, behind),
		}, []Rule{NotEmpty}},
		{"a pop before one was seen", []Operation{
			op(1, Push, "a", 1*s, 0, open, bundled), op(1, Push, "b", 1*s, 0, open, bundled), op(2, Pop, "", 3*s, 4*s, nothing),
			op(2, Pop, "a", 5*s, 6*s), op(2, Pop, "b", 7*s, 8*s),
		}, nil},
		{"a bundle of pops", []Operation{
			op(1, Push, "a", 1*s, 2*s), op(1, Push, "b", 1*s, 2*s, behind),
			op(2, Pop, "a", 3*s, 4*s, together), op(2, Pop, "b", 3*s, 4*s, together, behind), op(2, Pop, "", 3*s, 4*s, together, nothing),
		}, nil},
		{"one in disorder", []Operation{
			op(1, Push, "a", 1*s, 2*s), op(1, Push, "b", 1*s, 2*s, behind),
			op(2, Pop, "b", 3*s, 4*s, together, behind), op(2, Pop, "a", 3*s, 4*s, together),
		}, []Rule{Disorder}},
		{"one from the other end", []Operation{
			op(1, Push, "a", 1*s, 2*s), op(1, Push, "b", 1*s, 2*s, behind),
			op(2, Pop, "b", 3*s, 4*s, together, behind, fromMax), op(2, Pop, "a", 3*s, 4*s, together, fromMax),
		}, nil},
		{"one that left an item", []Operation{
			op(1, Push, "a", 1*s, 2*s), op(1, Push, "b", 1*s, 2*s, behind),
			op(2, Pop, "a", 3*s, 4*s, together), op(2, Pop, "", 3*s, 4*s, together, nothing), op(1, Pop, "b", 5*s, 6*s, behind),
		}, []Rule{NotEmpty}},
		{"the items of a bundle come out in its order", []Operation{
			op(1, Push, "a", 1*s, 2*s, bundled), op(1, Push, "b", 1*s, 2*s, bundled), op(2, Pop, "b", 3*s, 4*s), op(2, Pop, "a", 5*s, 6*s),
		}, []Rule{PassedOver}},
		{"from the other end, too", []Operation{
			op(1, Push, "a", 1*s, 2*s, bundled), op(1, Push, "b", 1*s, 2*s, bundled), op(2, Pop, "a", 3*s, 4*s, fromMax), op(2, Pop, "b", 5*s, 6*s),
		}, []Rule{PassedOver}},
	} {
		var rules []Rule
		for _, f := range Judge(c.history, One) {
			rules = append(rules, f.Rule)
		}
		if !slices.Equal(rules, c.rules) {
			t.Errorf("%s: found %q, expected %q", c.name, rules, c.rules)
		}
	}
}

// Several bridges promise less than one, because their clocks differ. What a repeated
// pop found is final all the same.
func TestSeveralBridges(t *testing.T) {
	t.Parallel()
	const s = time.Second
	for _, c := range []struct {
		name         string
		history      []Operation
		one, several []Rule
	}{
		{"a lease that ends a little early", []Operation{
			op(1, Push, "a", 1*s, 2*s), op(2, Lease, "a", 3*s, 4*s, minute), op(1, Pop, "a", 61*s, 62*s-1),
		}, []Rule{Overlap}, nil},
		{"a lease that ends too early", []Operation{
			op(1, Push, "a", 1*s, 2*s), op(2, Lease, "a", 3*s, 4*s, minute), op(1, Pop, "a", 60*s, 61*s),
		}, []Rule{Overlap}, []Rule{Overlap}},
		{"a repeated pop that found nothing", []Operation{
			op(1, Push, "a", 1*s, 2*s), op(2, Pop, "", 1*s, 3*s, nothing, repeated),
		}, []Rule{Lost}, []Rule{Lost}},
		{"and lost more than one item", []Operation{
			op(1, Push, "a", 1*s, 2*s), op(1, Push, "b", 2*s, 3*s), op(2, Pop, "", 1*s, 3*s, nothing, repeated),
		}, []Rule{Lost}, []Rule{Lost}},
		{"one that was not repeated", []Operation{
			op(1, Push, "a", 1*s, 2*s), op(2, Pop, "", 1*s, 3*s, nothing),
		}, []Rule{Lost}, []Rule{Lost}},
		{"one that found nothing where something was", []Operation{
			op(1, Push, "a", 1*s, 2*s), op(2, Pop, "", 3*s, 4*s, nothing, repeated), op(2, Pop, "a", 5*s, 6*s),
		}, []Rule{NotEmpty}, []Rule{NotEmpty}},
		{"a repeated lease that found nothing hides no item", []Operation{
			op(1, Push, "a", 1*s, 2*s), op(2, Lease, "", 1*s, 3*s, minute, nothing, repeated),
			op(1, Pop, "", 4*s, 5*s, nothing), op(1, Pop, "a", 100*s, 101*s),
		}, []Rule{NotEmpty}, []Rule{NotEmpty}},
		{"a repeated peek that found nothing hides none", []Operation{
			op(1, Push, "a", 1*s, 2*s), op(2, Peek, "", 1*s, 3*s, nothing, repeated),
			op(1, Pop, "", 4*s, 5*s, nothing), op(1, Pop, "a", 6*s, 7*s),
		}, []Rule{NotEmpty}, []Rule{NotEmpty}},
	} {
		for bridges, want := range map[Bridges][]Rule{One: c.one, Several: c.several} {
			var rules []Rule
			for _, f := range Judge(c.history, bridges) {
				rules = append(rules, f.Rule)
			}
			if !slices.Equal(rules, want) {
				t.Errorf("%s, bridges %d: found %q, expected %q", c.name, bridges, rules, want)
			}
		}
	}
}

// The search finds each answer that no order explains.
func TestNoOrder(t *testing.T) {
	t.Parallel()
	const s = time.Second
	push, lease := op(1, Push, "a", 1*s, 2*s), op(2, Lease, "a", 3*s, 4*s, minute)
	for _, c := range []struct {
		name    string
		history []Operation
	}{
		{"a peek at the second item", []Operation{push, op(1, Push, "b", 3*s, 4*s, behind), op(2, Peek, "b", 5*s, 6*s, behind)}},
		{"a refusal while the lease lasts", []Operation{push, lease, op(2, Ack, "a", 5*s, 6*s, minute, nothing)}},
		{"two acknowledgements", []Operation{push, lease, op(2, Ack, "a", 5*s, 6*s, minute), op(2, Ack, "a", 7*s, 8*s, minute)}},
		{"a settlement of what was given back", []Operation{push, lease, op(2, Nak, "a", 5*s, 6*s, minute), op(2, Ack, "a", 7*s, 8*s, minute)}},
		{"a settlement after the next lease", []Operation{
			push, lease, op(2, Nak, "a", 5*s, 6*s, minute), op(1, Lease, "a", 7*s, 8*s, minute, second), op(2, Ack, "a", 9*s, 10*s, minute),
		}},
		{"an item of a bundle before an earlier one", []Operation{
			op(1, Push, "a", 1*s, 5*s, bundled), op(1, Push, "b", 1*s, 5*s, bundled), op(2, Pop, "b", 3*s, 4*s),
		}},
		{"a part of a bundle that has no answer", []Operation{
			op(1, Push, "a", 1*s, 0, open, bundled), op(1, Push, "b", 1*s, 0, open, bundled), op(2, Pop, "a", 3*s, 4*s), op(2, Pop, "", 5*s, 6*s, nothing),
		}},
		{"a look between the pops of a bundle", []Operation{
			push, op(1, Push, "b", 2*s, 3*s), op(2, Pop, "a", 4*s, 7*s, together), op(2, Pop, "b", 4*s, 7*s, together), op(3, Peek, "b", 5*s, 6*s),
		}},
		{"a fence that does not grow", []Operation{
			push, op(2, Lease, "a", 3*s, 4*s, minute, second), op(2, Nak, "a", 5*s, 6*s, minute, second), op(1, Lease, "a", 7*s, 8*s, minute),
		}},
	} {
		if holds, err := Linearizable(c.history, patience.Most); err != nil || holds {
			t.Errorf("%s: found %t, %v: expected no order", c.name, holds, err)
		}
		last := len(c.history) - 1
		if holds, err := Linearizable(c.history[:last], patience.Most); err != nil || !holds {
			t.Errorf("%s: found %t, %v: expected an order of all but the last operation", c.name, holds, err)
		}
	}
}

// The two judges know nothing of each other: what the search calls sound the
// rules have to call sound, and each flaw that can be told without peeks or
// leases that run out the search has to tell.
func TestLinearizable(t *testing.T) {
	t.Parallel()
	for _, f := range []flaw{sound, loses, doubles, passesOver, saysEmpty, newestFirst, oldestLast} {
		t.Run(string(f), func(t *testing.T) {
			t.Parallel()
			told := 0
			for seed := range uint64(seeds) {
				operations := simulate(seed, f, 40, true)
				holds, err := Linearizable(operations, patience.Most)
				if err != nil {
					t.Fatal(err)
				}
				if !holds {
					told++
				} else if findings := Judge(operations, One); len(findings) > 0 {
					t.Errorf("seed %d: linearizable, and yet %s", seed, findings[0])
				}
			}
			if f == sound && told > 0 || f != sound && told == 0 {
				t.Errorf("%d histories were not linearizable", told)
			}
		})
	}
}

func TestFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	operations := simulate(1, passesOver, 100, false)
	name := filepath.Join(dir, "history.jsonl")
	if err := Write(name, operations); err != nil {
		t.Fatal(err)
	}
	again, err := Read(name)
	if err != nil || !slices.Equal(again, operations) {
		t.Errorf("read %d operations, %v, and wrote %d", len(again), err, len(operations))
	}
	finding := Judge(operations, One)[0]
	excerpt := finding.Excerpt(operations)
	if len(excerpt) < len(finding.Operations) || len(excerpt) == len(operations) {
		t.Errorf("the excerpt has %d of %d operations", len(excerpt), len(operations))
	}
	page := filepath.Join(dir, "history.html")
	if err := Draw(page, excerpt, time.Second); err != nil {
		t.Fatal(err)
	}
	drawn, err := os.ReadFile(page)
	if err != nil || !strings.Contains(string(drawn), finding.Operations[0].Item) {
		t.Errorf("the page does not show the item: %v", err)
	}
}

// Pushes that overlap are told apart by how they come out, not by trying all
// their orders.
func TestSearchIsShort(t *testing.T) {
	t.Parallel()
	const rounds, clients = 6, 6
	var operations []Operation
	at := time.Duration(0)
	for r := range rounds {
		for c := range clients {
			operations = append(operations, Operation{
				Client: c, Kind: Push, Item: fmt.Sprint(r, "-", c), Call: at + time.Duration(c), Return: at + clients + time.Duration(c), Outcome: Done,
			})
		}
		at += 2 * clients
	}
	for r := range rounds {
		for c := range clients {
			operations = append(operations, Operation{
				Kind: Pop, End: Min, Item: fmt.Sprint(r, "-", (c*5+r)%clients), Call: at, Return: at + 1, Outcome: Done,
			})
			at += 2
		}
	}
	if holds, err := Linearizable(operations, patience.Most); err != nil || !holds {
		t.Errorf("found %t, %v: expected an order", holds, err)
	}
	first, last := &operations[rounds*clients], &operations[len(operations)-1] // of the pops
	first.Item, last.Item = last.Item, first.Item
	if holds, err := Linearizable(operations, patience.Most); err != nil || holds {
		t.Errorf("found %t, %v: expected no order, as an item of the last round came out first", holds, err)
	}
}
