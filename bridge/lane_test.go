package bridge_test

import (
	"fmt"
	"testing"

	"github.com/pqbridge/pqbridge/bridge"
)

// A bounded number of idle lanes waits for work, and none after the bridge has ended.
func TestLanes(t *testing.T) {
	t.Parallel()
	const queues, most = 300, 64
	c := serve(t)
	for range 3 {
		var pushes []answers
		for i := range queues {
			pushes = append(pushes, c.send(fmt.Sprintf("pq.q%d.push", i), "x"))
		}
		for _, sub := range pushes {
			c.acknowledged(c.next(sub))
		}
		if n := bridge.Lanes(c.env.Bridge); n > most {
			t.Fatalf("%d lanes wait after pushes to %d queues, expected %d at most", n, queues, most)
		}
	}
	c.drain(c.env.Bridge)
	bridge.AwaitLanes(c.env.Bridge)
	if n := bridge.Lanes(c.env.Bridge); n > 0 {
		t.Errorf("%d lanes wait after the end", n)
	}
}
