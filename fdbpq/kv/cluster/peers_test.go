package cluster

import (
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"
)

// talk gives a member of others heartbeats, as often as they come, for a while.
func talk(t *testing.T, p *peers, d time.Duration, others ...heartbeat) {
	t.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); <-time.After(Silence / 20) {
		for _, h := range others {
			message, err := json.Marshal(h)
			if err != nil {
				t.Fatal(err)
			}
			if _, ok := p.hear(message); !ok {
				t.Fatalf("a heartbeat of %s was refused", h.Member)
			}
		}
		p.judge()
	}
}

// A member that this one alone does not hear is silent, and not lost, until another one that runs says the same.
func TestSilenceNeedsAnotherWord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPeers("a", Silence)
		b, c, says := heartbeat{Member: "b", Process: "b"}, heartbeat{Member: "c", Process: "c"}, heartbeat{Member: "c", Process: "c", Silent: []string{"b"}}
		talk(t, p, 2*settledAfter, b, c)
		if talk(t, p, 2*Silence, c); !p.all["b"].silent || p.all["b"].lost {
			t.Errorf("b is silent: %t, lost: %t, and only this member does not hear it", p.all["b"].silent, p.all["b"].lost)
		}
		if talk(t, p, Silence/10, says); !p.all["b"].lost {
			t.Error("b is not lost, and two members say that it is silent")
		}
		if talk(t, p, Silence/10, b, c); p.all["b"].silent || p.all["b"].lost {
			t.Error("b is lost, and was heard")
		}
	})
}

// A member that has come back opens its connections anew. For some time it may be silent for longer, and the gaps of
// that time say nothing of later ones.
func TestReturnedMember(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPeers("a", Silence)
		first, second, third := heartbeat{Member: "b", Process: "1"}, heartbeat{Member: "b", Process: "2"}, heartbeat{Member: "c", Process: "3"}
		talk(t, p, 2*settledAfter, first, third)
		talk(t, p, Silence, second, third)
		if limit := p.limitLocked(p.all["b"], time.Now()); limit != returnedFactor*Silence {
			t.Errorf("behind the return the limit is %v, expected %v", limit, returnedFactor*Silence)
		}
		talk(t, p, 2*Silence, third) // a gap
		talk(t, p, 2*settledAfter, second, third)
		if limit := p.limitLocked(p.all["b"], time.Now()); limit != Silence {
			t.Errorf("once it has settled the limit is %v, expected %v", limit, Silence)
		}
	})
}

// A process that did not run for a while has heard nobody. It takes nobody for lost, although another member confirms
// that, and the time of the halt is no gap of the others.
func TestHaltedProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPeers("a", Silence)
		b, c, says := heartbeat{Member: "b", Process: "b"}, heartbeat{Member: "c", Process: "c"}, heartbeat{Member: "c", Process: "c", Silent: []string{"b"}}
		talk(t, p, 2*settledAfter, b, c)
		<-time.After(10 * Silence)
		talk(t, p, Silence/20, says) // this was said during the halt
		if p.all["b"].lost {
			t.Error("b is lost as soon as this process runs again")
		}
		talk(t, p, Silence, b, c)
		if limit := p.limitLocked(p.all["b"], time.Now()); limit != returnedFactor*Silence {
			t.Errorf("behind the halt the limit is %v, expected %v", limit, returnedFactor*Silence)
		}
		talk(t, p, 2*Silence, c) // this process connects to b again
		talk(t, p, 2*settledAfter, b, c)
		if limit := p.limitLocked(p.all["b"], time.Now()); limit != Silence {
			t.Errorf("once the connections have lasted the limit is %v, expected %v", limit, Silence)
		}
		if talk(t, p, Silence+Silence/10, says); !p.all["b"].lost {
			t.Error("a silent member is not lost although another one confirms its silence")
		}
	})
}
