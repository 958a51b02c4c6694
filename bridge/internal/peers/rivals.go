package peers

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// ServiceName is the name of all bridges in service discovery, whatever their prefix.
const ServiceName = "pq"

// How long a search waits for the first answer, and for each further one. Without
// other bridges, the server says so at once.
const (
	firstAnswer = 2 * time.Second
	nextAnswer  = 250 * time.Millisecond

	// longestRound bounds each of the two rounds of a search, however many answers come, and maxHints the answers
	// that are followed up.
	longestRound = 5 * time.Second
	maxHints     = 64
)

// Rivals finds the bridges that must not serve beside this one. Bridges under one prefix share the requests, so
// with two stores each would get a part of every queue. If one prefix lies within the other, both bridges get the
// requests of the longer one.
type Rivals struct {
	nc        *nats.Conn
	self      Identity
	storeName string
	log       *slog.Logger

	mu     sync.Mutex
	warned map[string]bool // ids of hints that have been logged
}

// maxWarned bounds the hints that are logged, and the rivals: a client that forges one can forge more.
const maxWarned = 64

// NewRivals returns the search for the rivals of a bridge on its connection.
func NewRivals(nc *nats.Conn, self Identity, storeName string, log *slog.Logger) *Rivals {
	return &Rivals{nc: nc, self: self, storeName: storeName, log: log, warned: make(map[string]bool)}
}

// Refuse returns an error that names a rival, if there is one. A bridge that
// starts can be found before it asks: of two that start at the same time, at
// least one finds the other.
func (r *Rivals) Refuse(ctx context.Context) error {
	found, err := r.find(ctx)
	if err == nil && len(found.rivals) > 0 {
		err = r.describe(found.rivals[0])
	}
	return err
}

// sighting has the rivals that a search has found, or that it has found none.
type sighting struct {
	rivals []Identity // that have proven themselves
	alone  bool       // the server reports that there are no other bridges
}

// find asks all bridges for their identities, and possible rivals for a proof.
func (r *Rivals) find(ctx context.Context) (found sighting, err error) {
	s := search{rivals: r, server: serverOf(r.nc), inbox: r.nc.NewInbox() + "." + rand.Text(), came: make(chan *nats.Msg, searchRoom), nonce: newNonce()}
	defer s.end()
	if err := s.run(ctx); err != nil {
		return found, fmt.Errorf("look for other bridges: %w", err)
	}
	for _, h := range s.hints {
		if !h.proven {
			r.warn(h)
		}
	}
	return sighting{rivals: s.found, alone: s.alone}, nil
}

// warn logs a hint without a proof. Bridges at other sites give none: their events end at the leaf
// node, as their requests do.
func (r *Rivals) warn(o hint) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.warned[o.ID] || len(r.warned) >= maxWarned {
		return
	}
	r.warned[o.ID] = true
	if o.far {
		r.log.Info("a bridge at another site has the same prefix: each serves the clients of its own site", "id", o.ID, "prefix", o.Prefix, "site", o.Site, "server", o.Server.Name)
		return
	}
	r.log.Warn("ignored a rival bridge that gave no proof: its answer is forged, or it lacks permissions",
		"id", o.ID, "prefix", o.Prefix, "store_id", o.StoreID)
}

// describe returns why two bridges must not serve at the same time, and what to do.
func (r *Rivals) describe(o Identity) error {
	far := !o.Server.beside(serverOf(r.nc))
	switch {
	case r.self.AtSite:
		return fmt.Errorf("bridge %s at the NATS server %q already serves the prefix %q with another store (id %s): two sites have one name; give each another PQ_SITE",
			o.ID, o.Server.Name, o.Prefix, o.StoreID)
	case far && o.Prefix == r.self.Prefix:
		return fmt.Errorf("bridge %s already serves the prefix %q with another store (id %s) at the NATS server %q, which a leaf node or a gateway connects with this one (%q), and requests cross it: "+
			"have the leaf node deny_imports and deny_exports [%q], so that each site serves its own clients (docs/topologies.md); beside a gateway use another prefix",
			o.ID, o.Prefix, o.StoreID, o.Server.Name, r.nc.ConnectedServerName(), o.Prefix+".>")
	case o.Prefix != r.self.Prefix:
		return fmt.Errorf("bridge %s already serves the prefix %q, and this one is to serve %q: one of the two lies within the other, and each request there would go to either bridge; use another prefix",
			o.ID, o.Prefix, r.self.Prefix)
	case o.StoreID == r.self.StoreID:
		return fmt.Errorf("bridge %s already serves the prefix %q with a copy of this store (id %s; this one is %s): each would get a share of every queue; use another prefix, or one of the copies",
			o.ID, o.Prefix, o.StoreID, r.storeName)
	}
	return fmt.Errorf("bridge %s already serves the prefix %q with another store (id %s; this one is %s, id %s): each would get a share of every queue; use another prefix, or one store",
		o.ID, o.Prefix, o.StoreID, r.storeName, r.self.StoreID)
}

// rivals reports whether two bridges must not serve side by side: their prefixes are the
// same, or one lies within the other, and their stores differ. Two processes cannot
// open one exclusive store, so one of them serves a copy.
func (i Identity) rivals(o Identity) bool {
	switch {
	case o.ID == i.ID:
		return false
	case o.Prefix == i.Prefix:
		return o.StoreID != i.StoreID || o.exclusive()
	}
	return within(i.Prefix, o.Prefix) || within(o.Prefix, i.Prefix)
}

// within reports whether all subjects of one prefix lie under the other.
func within(prefix, other string) bool { return strings.HasPrefix(prefix+".", other+".") }
