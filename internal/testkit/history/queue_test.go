package history

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// flaw is a way in which the queue of these tests may be wrong.
type flaw string

const (
	sound       flaw = "sound"
	loses       flaw = "loses an item now and then"
	doubles     flaw = "hands a popped item out again"
	forgetsAck  flaw = "hands an acknowledged item out again"
	passesOver  flaw = "takes the second item"
	endsEarly   flaw = "ends leases early"
	leasesTwice flaw = "leases a leased item, with a fence of its own"
	sameFence   flaw = "leases a leased item with the same fence"
	takesStale  flaw = "takes a settlement of a lease that is over"
	refuses     flaw = "refuses the settlement of a lease that lasts"
	saysEmpty   flaw = "says that it is empty"
	invents     flaw = "hands out what nobody pushed"
	showsGone   flaw = "shows what is gone"
	newestFirst flaw = "gives the newest of a priority first"
	oldestLast  flaw = "gives the oldest of a priority last"

	exceeds      flaw = "leases one more of a key than its limit"
	anyOfKey     flaw = "leases another item of a key before one is over"
	lastOfKey    flaw = "leases the last item of a key first"
	holdsKeys    flaw = "lets a key go too late"
	forgetsKeys  flaw = "never lets a key go"
	fenceStands  flaw = "gives two leases of a key one fence"
	fenceShrinks flaw = "gives a lease of a key a lower fence"
	fenceMissing flaw = "gives a lease of a key no fence"
	wrongKey     flaw = "says another key"
	saysBlocked  flaw = "says that it is blocked when no item is ready"
	saysLeased   flaw = "says that all items are leased when it is blocked"
)

// expected is the rule that tells each flaw.
var expected = map[flaw]Rule{
	loses: Lost, doubles: Twice, forgetsAck: Twice, passesOver: PassedOver, endsEarly: Overlap,
	leasesTwice: Overlap, sameFence: SameFence, takesStale: Stale, refuses: Revoked, saysEmpty: NotEmpty,
	invents: Invented, showsGone: Shown, newestFirst: PassedOver, oldestLast: PassedOver,
}

// expectedOfKeys are the expected results of a queue with keys.
var expectedOfKeys = map[flaw]Rule{
	exceeds: OverLimit, anyOfKey: OutOfOrder, lastOfKey: PassedOver, holdsKeys: NotEmpty, forgetsKeys: NotEmpty,
	fenceStands: KeyFence, fenceShrinks: KeyFence, fenceMissing: NoKeyFence, wrongKey: WrongKey,
	saysBlocked: WrongBlocked, saysLeased: NotEmpty,
	loses: Lost, forgetsAck: Twice, passesOver: PassedOver, endsEarly: Overlap, takesStale: Stale, refuses: Revoked, saysEmpty: NotEmpty,
}

// stored is an item of the queue under test.
type stored struct {
	name     string
	key      string
	priority int64
	number   int // of its push
	fence    int64
	until    time.Duration // end of its lease; 0: ready
}

// grant is a lease that a client knows of.
type grant struct {
	item     string
	key      string
	priority int64
	fence    int64
	lease    time.Duration
	until    time.Duration
}

// simulation has clients use one queue, one step after another. Each operation
// takes effect at its step, somewhere between its call and its return.
type simulation struct {
	random  *rand.Rand
	flaw    flaw
	now     time.Duration
	items   []stored
	gone    []stored
	pushed  int
	clients []client
	history []Operation

	terms    Operation // of a queue with keys
	keyFence int64
	held     map[string]time.Duration // keys that a flaw does not let go, and until when
}

type client struct {
	idle   time.Duration // since when
	grants []grant
}

// short is a lease that may run out, long a lease that does not.
const (
	short = 40 * time.Second
	long  = time.Hour
)

// simulate returns the history of some steps and of the drain behind them; plain
// has neither peeks nor leases that run out.
func simulate(seed uint64, f flaw, steps int, plain bool) []Operation {
	return simulateKeys(seed, f, steps, plain, Operation{})
}

// simulateKeys is simulate for a queue with these terms.
func simulateKeys(seed uint64, f flaw, steps int, plain bool, terms Operation) []Operation {
	s := &simulation{random: rand.New(rand.NewPCG(seed, 0)), flaw: f, clients: make([]client, 5), terms: terms, held: make(map[string]time.Duration)}
	if terms.Kind == Configure {
		s.history = append(s.history, terms)
		s.now = time.Second
	}
	leases := []time.Duration{short, long}
	if plain {
		leases = []time.Duration{long}
	}
	for range steps {
		s.now += time.Duration(s.random.IntN(2000)) * time.Millisecond
		c := s.random.IntN(len(s.clients))
		switch n := s.random.IntN(100); {
		case n < 40:
			s.push(c)
		case n < 50 && s.terms.Kind != Configure:
			s.look(c, Pop, 0)
		case n < 56 && !plain:
			s.look(c, Peek, 0)
		case n < 75:
			s.look(c, Lease, leases[s.random.IntN(len(leases))])
		default:
			s.settle(c)
		}
	}
	for c := range s.clients {
		for _, g := range s.clients[c].grants {
			if plain {
				s.now = max(s.now, s.clients[c].idle) + time.Second
				s.end(c, g, Nak)
			}
		}
	}
	s.now += 2 * long
	s.expire()
	s.clients[0].grants = nil
	for range 2*steps + 2 {
		s.now += time.Second
		if s.terms.Kind == Configure {
			s.look(0, Lease, long)
			for _, g := range s.clients[0].grants {
				s.now += 3 * time.Second
				s.end(0, g, Ack)
			}
			s.clients[0].grants = nil
			s.now += 3 * time.Second
		} else if s.look(0, Pop, 0) == Nothing && len(s.items) == 0 {
			break
		}
	}
	slices.SortStableFunc(s.history, func(a, b Operation) int { return int(a.Call - b.Call) })
	return s.history
}

func (s *simulation) chance(f flaw) bool { return s.flaw == f && s.random.IntN(8) == 0 }

// add records an operation that takes effect now.
func (s *simulation) add(c int, o Operation) {
	idle := s.clients[c].idle
	o.Client = c
	o.Call = s.now - time.Duration(s.random.Int64N(int64(min(s.now-idle, 3*time.Second)))+1)
	o.Return = s.now + time.Duration(s.random.IntN(3000))*time.Millisecond
	if o.Call < idle {
		o.Call = idle
	}
	s.clients[c].idle = o.Return
	s.history = append(s.history, o)
	if o.Return > s.now && s.random.IntN(2) == 0 {
		s.now = max(s.now, o.Call) // the others go on while it is under way
	}
}

func (s *simulation) push(c int) {
	if s.now <= s.clients[c].idle {
		return
	}
	s.pushed++
	it := stored{name: fmt.Sprint("item-", s.pushed), priority: s.random.Int64N(4), number: s.pushed}
	if n := s.random.IntN(5); s.terms.Kind == Configure && n > 0 {
		it.key = fmt.Sprint("key-", n)
	}
	if !s.chance(loses) {
		s.items = append(s.items, it)
	}
	s.add(c, Operation{Kind: Push, Item: it.name, Key: it.key, Priority: it.priority, Outcome: Done})
}

func (s *simulation) expire() {
	for i := range s.items {
		until := s.items[i].until
		if s.flaw == endsEarly && until > 0 {
			until -= short / 2
		}
		if until <= s.now {
			s.items[i].until = 0
		}
	}
}

// order is the order of pop.min.
func (s *simulation) order(a, b stored) int {
	if a.priority != b.priority {
		return int(a.priority - b.priority)
	}
	if s.flaw == newestFirst || s.flaw == oldestLast {
		return b.number - a.number
	}
	return a.number - b.number
}

func (s *simulation) look(c int, kind Kind, lease time.Duration) Outcome {
	if s.now <= s.clients[c].idle {
		return Unknown
	}
	s.expire()
	slices.SortFunc(s.items, s.order)
	var found []int
	ready := false
	for i, it := range s.items {
		ready = ready || it.until == 0
		if it.until == 0 && !s.free(it) {
			continue
		}
		if it.until == 0 || lease > 0 && (s.chance(leasesTwice) || s.chance(sameFence)) {
			found = append(found, i)
		}
	}
	o := Operation{Kind: kind, End: []End{Min, Max}[s.random.IntN(2)], Lease: lease, Outcome: Done}
	if s.terms.Kind == Configure {
		o.End = Min
	}
	if o.End == Max {
		slices.Reverse(found)
	}
	if len(found) > 1 && s.chance(passesOver) {
		found = found[1:]
	}
	switch {
	case kind != Lease && s.chance(invents):
		o.Item = fmt.Sprint("stranger-", s.now)
	case kind == Peek && len(s.gone) > 0 && s.chance(showsGone),
		kind == Pop && len(s.gone) > 0 && (s.chance(doubles) || s.chance(forgetsAck)):
		it := s.gone[s.random.IntN(len(s.gone))]
		o.Item, o.Key, o.Priority = it.name, it.key, it.priority
	case len(found) == 0 || s.chance(saysEmpty):
		o.Outcome = Nothing
		s.explain(&o, ready)
	default:
		it := &s.items[found[0]]
		o.Item, o.Key, o.Priority = it.name, it.key, it.priority
		if s.chance(wrongKey) {
			o.Key = "key-0"
		}
		switch kind {
		case Pop:
			if s.flaw != forgetsAck {
				s.gone = append(s.gone, *it)
			}
			s.items = slices.Delete(s.items, found[0], found[0]+1)
		case Lease:
			if it.until == 0 || s.flaw != sameFence {
				it.fence++
			}
			it.until = s.now + lease
			o.Fence, o.KeyFence = it.fence, s.nextKeyFence(it.key)
			s.clients[c].grants = append(s.clients[c].grants, grant{it.name, it.key, it.priority, it.fence, lease, it.until})
		}
	}
	s.add(c, o)
	return o.Outcome
}

// settle settles a lease of the client, or forgets it.
func (s *simulation) settle(c int) {
	grants := s.clients[c].grants
	if len(grants) == 0 || s.now <= s.clients[c].idle {
		return
	}
	n := s.random.IntN(len(grants))
	g := grants[n]
	s.clients[c].grants = slices.Delete(grants, n, n+1)
	if g.lease == short && s.random.IntN(2) == 0 {
		return // its holder has vanished
	}
	s.end(c, g, []Kind{Ack, Nak, Extend}[s.random.IntN(3)])
}

func (s *simulation) end(c int, g grant, kind Kind) {
	s.expire()
	o := Operation{Kind: kind, Item: g.item, Key: g.key, Priority: g.priority, Fence: g.fence, Outcome: Nothing}
	at := slices.IndexFunc(s.items, func(it stored) bool {
		return it.name == g.item && (it.fence == g.fence || s.flaw == takesStale)
	})
	if at >= 0 && !s.chance(refuses) {
		it := &s.items[at]
		switch {
		case kind == Ack:
			s.keep(it.key)
			if s.flaw == forgetsAck && s.terms.Kind == Configure { // it is ready again
				it.until = 0
				o.Outcome = Done
				break
			}
			if s.flaw != doubles {
				s.gone = append(s.gone, *it)
			}
			s.items = slices.Delete(s.items, at, at+1)
			o.Outcome = Done
		case it.until == 0:
		case kind == Nak:
			s.keep(it.key)
			it.until = 0
			o.Outcome = Done
		case kind == Extend:
			it.until = s.now + g.lease
			o.Outcome, o.Lease = Done, g.lease
			g.until = it.until
			s.clients[c].grants = append(s.clients[c].grants, g)
		}
	}
	s.add(c, o)
}
