package cluster

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster/internal/chain"
	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster/internal/peers"
)

// founder makes the log of a new store.
type founder struct{ *tail }

// found makes the log of a new store, if this member may. A member without a copy must not make an empty store in
// the place of a store that others have.
func (f founder) found(ctx context.Context) error {
	if f.head.Entry > 0 {
		f.self.set(peers.Follower, "the log is gone, and this member has a copy of it: "+chain.Advice)
		return ErrNoLog
	}
	if !f.options.Init && !f.allEmpty() {
		return fmt.Errorf("%w: it is made once all members say that they have no copy, or by pqd init", ErrNoLog)
	}
	if err := attempt(ctx, f.log().Create); err != nil {
		return err
	}
	if err := f.compare(ctx); err != nil {
		return err
	}
	var store chain.ID
	if _, err := rand.Read(store[:]); err != nil {
		return err
	}
	genesis := chain.Record{Store: store, Generation: chain.FirstGeneration, Process: f.process, Kind: chain.Genesis}.Encode()
	err := put(ctx, f.log(), 0, genesis, f.head.Identity)
	if errors.Is(err, errForeign) {
		return nil
	}
	return err
}

// allEmpty reports whether all declared members say that they have no copy.
func (f founder) allEmpty() bool {
	all, _ := f.peers.Heard()
	empty := map[string]bool{f.options.Name: true}
	for _, p := range all {
		empty[p.Member] = p.Entry == 0 && p.Runs(peers.LivingFor, time.Now())
	}
	for _, name := range f.options.Members {
		if !empty[name] {
			return false
		}
	}
	return len(f.options.Members) > 0
}
