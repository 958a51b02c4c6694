package peers

import (
	"encoding/json"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster/internal/chain"
)

const silence = 500 * time.Millisecond

// talk gives a member of others heartbeats, as often as they come, for a while.
func talk(t *testing.T, p *Peers, d time.Duration, others ...Heartbeat) {
	t.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); <-time.After(silence / 20) {
		for _, h := range others {
			hear(t, p, h)
		}
		p.Judge()
	}
}

// hear gives a member a heartbeat of another one.
func hear(t *testing.T, p *Peers, h Heartbeat) {
	t.Helper()
	message, err := json.Marshal(h)
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := p.Hear(message); !ok {
		t.Fatalf("a heartbeat of %s was refused", h.Member)
	}
}

// A member that this one alone does not hear is silent, and not lost, until another one that runs says the same.
func TestSilenceNeedsAnotherWord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New("a", silence)
		b, c, says := Heartbeat{Member: "b", Process: "b"}, Heartbeat{Member: "c", Process: "c"}, Heartbeat{Member: "c", Process: "c", Silent: []string{"b"}}
		talk(t, p, 2*settledAfter, b, c)
		if talk(t, p, 2*silence, c); !p.all["b"].silent || p.all["b"].Lost {
			t.Errorf("b is silent: %t, lost: %t, and only this member does not hear it", p.all["b"].silent, p.all["b"].Lost)
		}
		if talk(t, p, silence/10, says); !p.all["b"].Lost {
			t.Error("b is not lost, and two members say that it is silent")
		}
		if talk(t, p, silence/10, b, c); p.all["b"].silent || p.all["b"].Lost {
			t.Error("b is lost, and was heard")
		}
	})
}

// A member that has come back opens its connections anew. For some time it may be silent for longer, and the gaps of
// that time say nothing of later ones.
func TestReturnedMember(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New("a", silence)
		first, second, third := Heartbeat{Member: "b", Process: "1"}, Heartbeat{Member: "b", Process: "2"}, Heartbeat{Member: "c", Process: "3"}
		talk(t, p, 2*settledAfter, first, third)
		talk(t, p, silence, second, third)
		if limit := p.limitLocked(p.all["b"], time.Now()); limit != returnedFactor*silence {
			t.Errorf("behind the return the limit is %v, expected %v", limit, returnedFactor*silence)
		}
		talk(t, p, 2*silence, third) // a gap
		talk(t, p, 2*settledAfter, second, third)
		if limit := p.limitLocked(p.all["b"], time.Now()); limit != silence {
			t.Errorf("once it has settled the limit is %v, expected %v", limit, silence)
		}
	})
}

// A process that did not run for a while has heard nobody. It takes nobody for lost, although another member confirms
// that, and the time of the halt is no gap of the others.
func TestHaltedProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New("a", silence)
		b, c, says := Heartbeat{Member: "b", Process: "b"}, Heartbeat{Member: "c", Process: "c"}, Heartbeat{Member: "c", Process: "c", Silent: []string{"b"}}
		talk(t, p, 2*settledAfter, b, c)
		<-time.After(10 * silence)
		talk(t, p, silence/20, says) // this was said during the halt
		if p.all["b"].Lost {
			t.Error("b is lost as soon as this process runs again")
		}
		talk(t, p, silence, b, c)
		if limit := p.limitLocked(p.all["b"], time.Now()); limit != returnedFactor*silence {
			t.Errorf("behind the halt the limit is %v, expected %v", limit, returnedFactor*silence)
		}
		talk(t, p, 2*silence, c) // this process connects to b again
		talk(t, p, 2*settledAfter, b, c)
		if limit := p.limitLocked(p.all["b"], time.Now()); limit != silence {
			t.Errorf("once the connections have lasted the limit is %v, expected %v", limit, silence)
		}
		if talk(t, p, silence+silence/10, says); !p.all["b"].Lost {
			t.Error("a silent member is not lost although another one confirms its silence")
		}
	})
}

// A member is absent as soon as it says that it ends, or its machine refuses connections. One that is only silent, which nobody confirms,
// is absent later, and one that was silent while this process did not run is not. Whoever is heard again is there.
func TestAbsent(t *testing.T) {
	const unconfirmed = 3 * silence
	for name, c := range map[string]struct {
		what   func(t *testing.T, p *Peers, b Heartbeat)
		absent bool
	}{
		"it is heard":           {func(*testing.T, *Peers, Heartbeat) {}, false},
		"it has ended":          {func(t *testing.T, p *Peers, b Heartbeat) { b.Gone = true; hear(t, p, b) }, true},
		"its machine refuses":   {func(_ *testing.T, p *Peers, _ Heartbeat) { p.Refuse("b") }, true},
		"it is back":            {func(t *testing.T, p *Peers, b Heartbeat) { p.Refuse("b"); hear(t, p, b) }, false},
		"it is silent":          {func(t *testing.T, p *Peers, _ Heartbeat) { talk(t, p, 2*silence) }, false},
		"it is silent for long": {func(t *testing.T, p *Peers, _ Heartbeat) { talk(t, p, unconfirmed+silence) }, true},
		"another one does not hear it": {func(t *testing.T, p *Peers, _ Heartbeat) {
			talk(t, p, 2*silence, Heartbeat{Member: "c", Process: "c", Silent: []string{"b"}})
		}, true},
		"this process did not run": {func(*testing.T, *Peers, Heartbeat) { <-time.After(10 * unconfirmed) }, false},
		"it is silent behind such a halt": {func(t *testing.T, p *Peers, _ Heartbeat) {
			<-time.After(10 * unconfirmed)
			talk(t, p, unconfirmed+silence)
		}, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			p, b := New("a", silence), Heartbeat{Member: "b", Process: "b"}
			talk(t, p, 2*settledAfter, b, Heartbeat{Member: "c", Process: "c"})
			c.what(t, p, b)
			if got := slices.Contains(p.Absent(unconfirmed), "b"); got != c.absent {
				t.Errorf("%s: it is absent: %t", name, got)
			}
		})
	}
}

// The active member of the present epoch, or of a later one, is lost, or nobody is. An active member that is not lost
// counts more than one that is.
func TestActiveLost(t *testing.T) {
	t.Parallel()
	at := chain.Head{Generation: 2, Epoch: 5}
	since := time.Now()
	active := func(name string, generation, epoch uint64, lost bool) Peer {
		return Peer{Heartbeat: Heartbeat{Member: name, Role: Active, Generation: generation, Epoch: epoch}, Lost: lost, since: since}
	}
	follower := active("b", 2, 5, true)
	follower.Role = Follower
	for name, c := range map[string]struct {
		all  []Peer
		lost bool
	}{
		"of this epoch":            {[]Peer{active("b", 2, 5, true)}, true},
		"of a later epoch":         {[]Peer{active("b", 2, 6, true)}, true},
		"of an earlier epoch":      {[]Peer{active("b", 2, 4, true)}, false},
		"of another generation":    {[]Peer{active("b", 1, 5, true)}, false},
		"not lost":                 {[]Peer{active("b", 2, 5, false)}, false},
		"a follower":               {[]Peer{follower}, false},
		"another one is active":    {[]Peer{active("b", 2, 5, true), active("c", 2, 6, false)}, false},
		"another one was before":   {[]Peer{active("b", 2, 5, true), active("c", 2, 4, false)}, true},
		"two of them, both are it": {[]Peer{active("b", 2, 5, true), active("c", 2, 6, true)}, true},
	} {
		p := New("a", silence)
		for _, other := range c.all {
			p.all[other.Member] = other
		}
		if got := p.ActiveLost(at); got.IsZero() == c.lost {
			t.Errorf("%s: lost since %v, expected that it is lost: %v", name, got, c.lost)
		}
	}
}

// The active member of the present epoch, or of a later one, says that it sheds. Its word holds while it is heard.
func TestSheds(t *testing.T) {
	at := chain.Head{Generation: 2, Epoch: 5}
	for name, c := range map[string]struct {
		message string
		want    bool
	}{
		"it says so":           {`{"member":"b","role":"active","generation":2,"epoch":5,"sheds":true}`, true},
		"of a later epoch":     {`{"member":"b","role":"active","generation":2,"epoch":6,"sheds":true}`, true},
		"it says no":           {`{"member":"b","role":"active","generation":2,"epoch":5,"sheds":false}`, false},
		"an earlier version":   {`{"member":"b","role":"active","generation":2,"epoch":5}`, false},
		"of an earlier epoch":  {`{"member":"b","role":"active","generation":2,"epoch":4,"sheds":true}`, false},
		"a follower":           {`{"member":"b","role":"follower","generation":2,"epoch":5,"sheds":true}`, false},
		"it has ended":         {`{"member":"b","role":"active","generation":2,"epoch":5,"sheds":true,"gone":true}`, false},
		"it reaches no log":    {`{"member":"b","role":"active","generation":2,"epoch":5,"sheds":true,"pending":3000000000}`, false},
		"the one that asks":    {`{"member":"a","role":"active","generation":2,"epoch":5,"sheds":true}`, false},
		"what nobody can read": {`{"member":"b","role":"active","generation":2,"epoch":5,"sheds":"yes"}`, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			p := New("a", silence)
			p.Hear([]byte(c.message))
			if p.Sheds(at) != c.want {
				t.Errorf("%s: it sheds: %t", name, !c.want)
			}
			if <-time.After(silence - 1); p.Sheds(at) != c.want {
				t.Errorf("%s: just before its silence it sheds: %t", name, !c.want)
			}
			if <-time.After(1); p.Sheds(at) {
				t.Errorf("%s: a silent member sheds", name)
			}
		})
	}
}
