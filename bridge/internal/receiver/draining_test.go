package receiver

import (
	"testing"

	"github.com/nats-io/nats.go"
)

// A subscription drains since the first time that it began to, and once.
func TestDrainingSinceTheFirstTime(t *testing.T) {
	t.Parallel()
	var d draining
	sub, other := &nats.Subscription{}, &nats.Subscription{}
	d.begin(sub, 3)
	d.begin(sub, 4)
	d.begin(other, 5)
	if since, drained := d.end(sub); since != 3 || !drained {
		t.Errorf("drains since connection %d, %t", since, drained)
	}
	if _, drained := d.end(sub); drained {
		t.Error("it drains although it has ended")
	}
}
