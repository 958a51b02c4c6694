package peers_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

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

// Bridges of earlier versions hear no words about queues of tenants. Beside them each request is served once, whoever hears
// of a contest, and both agree when both have lost.
func TestTenantsBesideEarlierBridges(t *testing.T) {
	t.Parallel()
	for _, owner := range []string{"new", "old"} {
		for _, loses := range []string{"new", "old"} {
			t.Run(fmt.Sprintf("the %s bridge owns the queue, and the %s loses", owner, loses), func(t *testing.T) {
				t.Parallel()
				w := newOwners(t, func(o *server.Options) {
					deaf := &server.SubjectPermission{Deny: []string{between + ".word.*.>"}}
					o.Users = []*server.User{{Username: "any"}, {Username: "old", Permissions: &server.Permissions{Subscribe: deaf}}}
					o.NoAuthUser = "any"
				})
				old := w.begin("pq", "old", "secret", (*peers.Owners).Listen, nats.UserInfo("old", ""))
				all := map[string]*bridge{"new": w.bridge("new"), "old": old}
				w.again()
				queue := "acme.jobs"
				for i := 0; peers.OwnerOf(queue, "new", "old") != owner; i++ {
					queue = fmt.Sprint("acme.queue-", i)
				}
				all[loses].Lost(queue)
				w.heard()
				if heard := all["new"]; heard.Pops(queue) != (owner == "new") {
					t.Errorf("the new bridge owns %s: %t", queue, heard.Pops(queue))
				}
				w.servesEachOnce(queue, all["new"], old)
				for _, b := range all {
					b.Lost(queue)
				}
				w.clock.Add(int64(time.Second))
				w.again()
				for id, b := range all {
					if b.Pops(queue) != (id == owner) {
						t.Errorf("both have lost, and the %s bridge owns %s: %t", id, queue, b.Pops(queue))
					}
				}
				w.servesEachOnce(queue, all["new"], old)
			})
		}
	}
}

// servesEachOnce has bridges get requests, and fails unless each is served by one of them.
func (w *owners) servesEachOnce(queue string, bridges ...*bridge) {
	w.Helper()
	served, want := make(map[string]int), 0
	for i := range 100 {
		for _, b := range bridges {
			body := fmt.Sprint(b.id, " ", i)
			want++
			if !b.Pass(queue, pop(body)) {
				served[body]++
			}
		}
	}
	w.settled(bridges...)
	w.heard()
	for _, b := range bridges {
		for len(b.served) > 0 {
			served[string((<-b.served).Data)]++
		}
		if len(b.unsure) > 0 {
			w.Errorf("%s knows nothing of %d requests", b.id, len(b.unsure))
		}
	}
	for body, n := range served {
		if n != 1 {
			w.Errorf("%q is served %d times", body, n)
		}
	}
	if len(served) != want {
		w.Errorf("%d of %d requests are served", len(served), want)
	}
}
