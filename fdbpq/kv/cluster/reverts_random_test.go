package cluster_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster"
)

// Nodes lose their power and come back in any order, and one disk at a time goes back or is
// emptied. With all nodes, and a recovery if they ask for it, nothing is lost.
func TestRevertsAtRandom(t *testing.T) {
	t.Parallel()
	first := rand.Uint64()
	if *seed != 1 {
		first = *seed
	}
	for i := range *seeds * 2 {
		seed := first + uint64(i)
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			runFleet(t, seed, func(f *fleet) {
				var (
					reverted *node // its disk counts for nothing yet
					images   = make(map[*node]image)
					did      []string
				)
				for range 25 {
					n := f.nodes[f.rng.IntN(len(f.nodes))]
					if reverted != nil && reverted.up() != nil && reverted.up().Status().CaughtUp {
						reverted = nil
					}
					what := f.rng.IntN(6)
					switch {
					case what == 0 && n.up() != nil:
						images[n] = f.image(n)
						did = append(did, "image "+n.name)
					case what == 1 && n.up() != nil:
						f.down(n)
						did = append(did, "down "+n.name)
					case what == 2 && len(f.running()) > 0:
						f.down(f.running()...)
						did = append(did, "all down")
					case what == 3 && n.up() == nil && (reverted == nil || reverted == n):
						if old, taken := images[n]; taken && f.rng.IntN(3) > 0 {
							f.revert(n, old)
							did = append(did, "revert "+n.name)
						} else {
							f.empty(n)
							did = append(did, "empty "+n.name)
						}
						reverted = n
					case n.up() == nil:
						f.back(n)
						did = append(did, "back "+n.name)
					}
					<-time.After(15 * time.Second)
					if active := f.leads(); active != nil {
						did = append(did, "push")
						f.push(1 + f.rng.IntN(3))
						<-time.After(15 * time.Second)
					}
				}
				t.Log(strings.Join(did, ", "))
				for _, n := range f.nodes {
					if n.up() == nil {
						f.back(n)
					}
				}
				f.await("a node takes over, or a recovery succeeds", func() bool {
					<-time.After(15 * time.Second)
					if f.leads() != nil {
						return true
					}
					r, err := f.nodes[0].up().Recover(context.Background(), cluster.Consent{})
					if err == nil {
						f.followed(r.Generation)
					} else {
						t.Log(err)
					}
					return false
				})
				f.whole()
			})
		})
	}
}

// leads returns the active node that reaches the log, if there is one.
func (f *fleet) leads() *node {
	if len(f.running()) < 2 {
		return nil
	}
	for _, n := range f.running() {
		if n.up().Status().Role == cluster.Active {
			return n
		}
	}
	return nil
}
