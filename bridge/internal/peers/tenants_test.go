package peers_test

import (
	"fmt"
	"testing"

	"github.com/pqbridge/pqbridge/bridge/internal/peers"
)

// The name of a tenant's queue has two tokens. Bridges agree on its owner as on that of any queue.
func TestOwnerOfATenantsQueue(t *testing.T) {
	t.Parallel()
	w := newOwners(t)
	a, b := w.bridge("a"), w.bridge("b")
	w.again()
	for i, says := range []*bridge{a, b, a, b} {
		queue := fmt.Sprint("acme.queue-", i)
		says.Lost(queue)
		w.heard()
		owner, other := a, b
		if peers.OwnerOf(queue, "a", "b") == "b" {
			owner, other = b, a
		}
		if !owner.Pops(queue) || other.Pops(queue) {
			t.Fatalf("%s says that it contests %s: expected %s to own it", says.id, queue, owner.id)
		}
		w.passesOf(other, queue, pop(queue))
		w.serves(owner, queue)
	}
}
