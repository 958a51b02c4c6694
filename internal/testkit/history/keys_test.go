package history

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/internal/testkit/patience"
)

// free reports whether a ready item need not wait for others of its key.
func (s *simulation) free(it stored) bool {
	if it.key == "" || s.terms.Kind != Configure {
		return true
	}
	leased := 0
	for _, other := range s.items {
		switch {
		case other.key != it.key || other.number == it.number:
		case s.terms.KeyOrder && other.fence > 0 && it.fence == 0 && s.flaw != anyOfKey:
			return false
		case other.until > 0:
			leased++
		case s.flaw == lastOfKey && other.number > it.number:
			return false
		}
	}
	limit := s.terms.limit()
	if s.chance(exceeds) || s.chance(anyOfKey) {
		limit++
	}
	return leased < limit && s.held[it.key] <= s.now
}

// keep has a flaw keep a key whose lease has ended.
func (s *simulation) keep(key string) {
	switch {
	case key == "":
	case s.chance(holdsKeys):
		s.held[key] = s.now + short
	case s.chance(forgetsKeys):
		s.held[key] = s.now + long
	}
}

func (s *simulation) nextKeyFence(key string) int64 {
	if s.terms.limit() != 1 || key == "" || s.chance(fenceMissing) {
		return 0
	}
	s.keyFence += 10
	switch {
	case s.chance(fenceStands):
		s.keyFence -= 10
	case s.chance(fenceShrinks):
		return max(1, s.keyFence-95)
	}
	return s.keyFence
}

// explain says why nothing was found.
func (s *simulation) explain(o *Operation, ready bool) {
	if s.terms.Kind != Configure {
		return
	}
	o.Reason = "leased"
	if ready != s.chance(saysBlocked) && s.flaw != saysLeased {
		o.Reason = blocked
	}
}

var someTerms = []Operation{
	{Kind: Configure, KeyLimit: 2, Outcome: Done, Return: time.Second},
	{Kind: Configure, KeyLimit: 1, Outcome: Done, Return: time.Second},
	{Kind: Configure, KeyOrder: true, Outcome: Done, Return: time.Second},
}

// A sound queue with keys keeps every promise, and there is an order of its operations.
func TestSoundKeys(t *testing.T) {
	t.Parallel()
	first := rand.Uint64()
	for _, terms := range someTerms {
		for seed := first; seed < first+seeds/4; seed++ {
			if findings := Judge(simulateKeys(seed, sound, 300, false, terms), One); len(findings) > 0 {
				t.Fatalf("seed %d, %s: %d findings in the history of a sound queue, the first: %s", seed, terms, len(findings), findings[0])
			}
			holds, err := Linearizable(simulateKeys(seed, sound, 40, true, terms), patience.Most)
			if err != nil || !holds {
				t.Fatalf("seed %d, %s: found %t, %v: expected an order", seed, terms, holds, err)
			}
		}
	}
}

// The judge tells every flaw of a queue with keys, and by its own rule.
func TestFlawsOfKeys(t *testing.T) {
	t.Parallel()
	const seeds = seeds / 4
	for f, rule := range expectedOfKeys {
		t.Run(string(f), func(t *testing.T) {
			t.Parallel()
			told := 0
			for seed := range uint64(seeds) {
				for _, terms := range someTerms {
					findings := Judge(simulateKeys(seed, f, 300, false, terms), One)
					if slices.ContainsFunc(findings, func(f Finding) bool { return f.Rule == rule }) {
						told++
						break
					}
				}
			}
			if told < seeds/2 {
				t.Errorf("%q was told in %d of %d histories", rule, told, seeds)
			}
		})
	}
}

func ofKey(o *Operation)        { o.Key = "k" }
func ofAnother(o *Operation)    { o.Key = "other" }
func isBlocked(o *Operation)    { o.Outcome, o.Reason = Nothing, blocked }
func isLeased(o *Operation)     { o.Outcome, o.Reason = Nothing, "leased" }
func thirdFence(o *Operation)   { o.Fence = 3 }
func firstOfKey(o *Operation)   { o.Key, o.KeyFence = "k", 1 }
func secondOfKey(o *Operation)  { o.Key, o.KeyFence = "k", 2 }
func withoutFence(o *Operation) { o.KeyFence = 0 }

func TestJudgeKeys(t *testing.T) {
	t.Parallel()
	const s = time.Second
	limited := func(n int64) Operation {
		return Operation{Kind: Configure, KeyLimit: n, Outcome: Done, Return: 1}
	}
	ordered := Operation{Kind: Configure, KeyOrder: true, Outcome: Done, Return: 1}
	a, b := op(1, Push, "a", 1*s, 2*s, ofKey), op(1, Push, "b", 3*s, 4*s, ofKey)
	leaseA, leaseB := op(2, Lease, "a", 5*s, 6*s, minute, firstOfKey), op(3, Lease, "b", 9*s, 10*s, minute, secondOfKey)
	ackB := op(3, Ack, "b", 20*s, 21*s, minute)
	for _, c := range []struct {
		name    string
		history []Operation
		rules   []Rule
	}{
		{"one lease after the other", []Operation{limited(1), a, b, leaseA, op(2, Ack, "a", 7*s, 8*s, minute), leaseB, ackB}, nil},
		{"two at a time", []Operation{limited(1), a, b, leaseA, leaseB, op(2, Ack, "a", 15*s, 16*s, minute), ackB}, []Rule{OverLimit}},
		{"that may have come after the other", []Operation{limited(1), a, b, leaseA, leaseB, op(2, Ack, "a", 9*s, 16*s, minute), ackB}, nil},
		{"two at a time where two may be", []Operation{
			limited(2), a, b, op(2, Lease, "a", 5*s, 6*s, minute, ofKey), op(3, Lease, "b", 9*s, 10*s, minute, ofKey),
			op(2, Ack, "a", 15*s, 16*s, minute), ackB,
		}, nil},
		{"the next lease when one has run out", []Operation{
			limited(1), a, b, op(2, Lease, "a", 5*s, 6*s, tenSeconds, firstOfKey), op(3, Lease, "b", 16*s, 17*s, minute, secondOfKey),
			ackB, op(2, Ack, "a", 25*s, 26*s, minute),
		}, nil},
		{"but not under key_order", []Operation{
			ordered, a, b, op(2, Lease, "a", 5*s, 6*s, tenSeconds, firstOfKey), op(3, Lease, "b", 16*s, 17*s, minute, secondOfKey),
			ackB, op(2, Ack, "a", 25*s, 26*s, minute),
		}, []Rule{OutOfOrder}},
		{"the next item when the first one was given back", []Operation{
			ordered, a, b, leaseA, op(2, Nak, "a", 7*s, 8*s, minute), leaseB, ackB,
			op(2, Lease, "a", 30*s, 31*s, minute, second, ofKey, func(o *Operation) { o.KeyFence = 3 }), op(2, Ack, "a", 32*s, 33*s, minute, second),
		}, []Rule{OutOfOrder, PassedOver}},
		{"the later item first", []Operation{
			ordered, a, b, op(3, Lease, "b", 5*s, 6*s, minute, firstOfKey), op(3, Ack, "b", 7*s, 8*s, minute),
			op(2, Lease, "a", 9*s, 10*s, minute, secondOfKey), op(2, Ack, "a", 20*s, 21*s, minute),
		}, []Rule{PassedOver}},
		{"the later item of a key with room", []Operation{
			limited(2), a, b, op(3, Lease, "b", 5*s, 6*s, minute, ofKey), op(3, Ack, "b", 7*s, 8*s, minute),
			op(2, Lease, "a", 9*s, 10*s, minute, ofKey), op(2, Ack, "a", 20*s, 21*s, minute),
		}, []Rule{PassedOver}},
		{"a fence that stays", []Operation{
			limited(1), a, b, leaseA, op(2, Ack, "a", 7*s, 8*s, minute), op(3, Lease, "b", 9*s, 10*s, minute, firstOfKey), ackB,
		}, []Rule{KeyFence}},
		{"a fence that shrinks", []Operation{
			limited(1), a, b, op(2, Lease, "a", 5*s, 6*s, minute, secondOfKey), op(2, Ack, "a", 7*s, 8*s, minute),
			op(3, Lease, "b", 9*s, 10*s, minute, firstOfKey), ackB,
		}, []Rule{KeyFence}},
		{"no fence", []Operation{limited(1), a, op(2, Lease, "a", 5*s, 6*s, minute, ofKey), op(2, Ack, "a", 7*s, 8*s, minute)}, []Rule{NoKeyFence}},
		{"a fence beside others", []Operation{limited(2), a, leaseA, op(2, Ack, "a", 7*s, 8*s, minute)}, []Rule{NoKeyFence}},
		{"another key", []Operation{
			limited(2), a, op(2, Lease, "a", 5*s, 6*s, minute, ofAnother), op(2, Ack, "a", 7*s, 8*s, minute),
		}, []Rule{WrongKey}},
		{"blocked while the key has its lease", []Operation{
			limited(1), a, b, leaseA, op(4, Lease, "", 7*s, 8*s, minute, isBlocked), op(2, Ack, "a", 8*s+1, 9*s-1, minute), leaseB, ackB,
		}, nil},
		{"leased while an item is ready", []Operation{
			limited(1), a, b, leaseA, op(4, Lease, "", 7*s, 8*s, minute, isLeased), op(2, Ack, "a", 8*s+1, 9*s-1, minute), leaseB, ackB,
		}, []Rule{NotEmpty}},
		{"blocked when the lease has ended", []Operation{
			limited(1), a, b, leaseA, op(2, Ack, "a", 7*s, 7*s+1, minute), op(4, Lease, "", 8*s, 8*s+1, minute, isBlocked), leaseB, ackB,
		}, []Rule{WrongBlocked, NotEmpty}},
		{"blocked without another item", []Operation{
			limited(1), a, leaseA, op(4, Lease, "", 7*s, 8*s, minute, isBlocked), op(2, Ack, "a", 9*s, 10*s, minute),
		}, []Rule{WrongBlocked}},
		{"blocked while an item without a key is ready", []Operation{
			limited(1), a, b, op(1, Push, "c", 3*s, 4*s), leaseA, op(4, Lease, "", 7*s, 8*s, minute, isBlocked), op(2, Ack, "a", 8*s+1, 9*s-1, minute),
			leaseB, ackB, op(4, Lease, "c", 22*s, 23*s, minute), op(4, Ack, "c", 24*s, 25*s, minute),
		}, []Rule{NotEmpty}},
		{"a lease without an answer may have the key", []Operation{
			limited(1), a, b, op(4, Lease, "", 5*s, 6*s, unanswered), op(4, Lease, "", 7*s, 8*s, minute, isBlocked),
			op(2, Lease, "a", 9*s, 10*s, minute, second, firstOfKey), op(2, Ack, "a", 11*s, 12*s, minute, second),
			op(3, Lease, "b", 13*s, 14*s, minute, secondOfKey), ackB,
		}, nil},
		{"and one lease only", []Operation{
			limited(1), a, op(4, Lease, "", 5*s, 6*s, unanswered),
			op(2, Lease, "a", 9*s, 10*s, minute, thirdFence, firstOfKey), op(2, Ack, "a", 11*s, 12*s, minute, thirdFence),
		}, []Rule{FenceSkipped}},
		{"under key_order it begins an item", []Operation{
			ordered, a, b, op(4, Lease, "", 5*s, 6*s, unanswered), op(3, Lease, "b", 9*s, 10*s, minute, second, firstOfKey), op(3, Ack, "b", 11*s, 12*s, minute, second),
			op(2, Lease, "a", 13*s, 14*s, minute, secondOfKey), op(2, Ack, "a", 15*s, 16*s, minute),
		}, nil},
		{"an item that was given back is ready under key_order", []Operation{
			ordered, a, b, leaseA, op(2, Nak, "a", 7*s, 8*s, minute), op(4, Lease, "", 9*s, 10*s, minute, nothing),
			op(2, Lease, "a", 11*s, 12*s, minute, second, secondOfKey), op(2, Ack, "a", 13*s, 14*s, minute, second),
			op(3, Lease, "b", 15*s, 16*s, minute, ofKey, func(o *Operation) { o.KeyFence = 3 }), ackB,
		}, []Rule{NotEmpty}},
		{"a lease that ran out in an outage may have the key for a while", []Operation{
			limited(1), a, b, op(2, Lease, "a", 5*s, 6*s, tenSeconds, firstOfKey), op(4, Lease, "", 8*s, 60*s, minute, isBlocked, repeated),
			op(4, Lease, "", 61*s, 62*s, minute, isBlocked), op(2, Lease, "a", 63*s, 64*s, minute, second, secondOfKey), op(2, Ack, "a", 65*s, 66*s, minute, second),
			op(3, Lease, "b", 67*s, 68*s, minute, ofKey, func(o *Operation) { o.KeyFence = 3 }), op(3, Ack, "b", 69*s, 70*s, minute),
		}, nil},
		{"but not where nobody waited for an answer", []Operation{
			limited(1), a, b, op(2, Lease, "a", 5*s, 6*s, tenSeconds, firstOfKey),
			op(4, Lease, "", 61*s, 62*s, minute, isBlocked), op(2, Lease, "a", 63*s, 64*s, minute, second, secondOfKey), op(2, Ack, "a", 65*s, 66*s, minute, second),
			op(3, Lease, "b", 67*s, 68*s, minute, ofKey, func(o *Operation) { o.KeyFence = 3 }), op(3, Ack, "b", 69*s, 70*s, minute),
		}, []Rule{WrongBlocked, NotEmpty}},
		{"an item without a key needs no fence", []Operation{
			limited(1), op(1, Push, "c", 3*s, 4*s), op(4, Lease, "c", 5*s, 6*s, minute, withoutFence), op(4, Ack, "c", 7*s, 8*s, minute),
		}, nil},
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
