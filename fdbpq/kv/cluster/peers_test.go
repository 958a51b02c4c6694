package cluster

import (
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"
)

// A process that did not run for a while has heard nobody. It takes nobody for lost, although another member confirms
// that, and the time of the halt is no gap of the others.
func TestHaltedProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPeers("a", Silence)
		hear := func(name string, silent ...string) {
			t.Helper()
			message, err := json.Marshal(heartbeat{Member: name, Process: name, Silent: silent})
			if err != nil {
				t.Fatal(err)
			}
			if _, ok := p.hear(message); !ok {
				t.Fatalf("a heartbeat of %s was refused", name)
			}
		}
		live := func(d time.Duration) {
			for end := time.Now().Add(d); time.Now().Before(end); <-time.After(Silence / 20) {
				hear("b")
				hear("c")
				p.judge()
			}
		}
		live(2 * settledAfter)
		<-time.After(10 * Silence)
		hear("c", "b") // this was said during the halt
		if _, lost := p.judge(); len(lost) > 0 {
			t.Errorf("%s is lost as soon as this process runs again", lost[0].Member)
		}
		live(Silence)
		if limit := p.all["b"].limit(Silence, time.Now()); limit != Silence {
			t.Errorf("behind the halt the limit is %v, expected %v", limit, Silence)
		}
		for end := time.Now().Add(Silence + Silence/10); time.Now().Before(end); <-time.After(Silence / 20) {
			hear("c", "b")
			if _, lost := p.judge(); len(lost) > 0 {
				return
			}
		}
		t.Error("a silent member is not lost although another one confirms its silence")
	})
}
