package peers

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/subjects"
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

// Any client that receives a question of service discovery can answer as if it were a
// bridge. So an answer is only a hint: the bridge that it names has to prove itself. It
// gets a nonce, and publishes it where the NATS server permits only bridges to publish:
// as an event under its own prefix.

// eventBridge is the type of that event.
const eventBridge = "bridge"

// challenge asks a bridge to prove itself. It is the body of a question for
// $SRV.INFO.pq.<id>.
type challenge struct {
	Prefix string `json:"prefix"` // of the bridge that asks
	Nonce  string `json:"nonce"`
}

// proof is the event that answers a challenge.
type proof struct {
	Type    string `json:"type"`
	Time    string `json:"time"`
	Nonce   string `json:"nonce"`
	ID      string `json:"id"`
	Prefix  string `json:"prefix"`
	StoreID string `json:"store_id"`
	Started string `json:"started,omitempty"`
	Server  Server `json:"server"`
}

// Bounds of a challenge.
const (
	maxChallenge = 512
	maxNonce     = 64
)

func newNonce() string { return rand.Text() }

// proofSubject is the subject on which one bridge proves itself to another: the one may publish it, and the other
// may listen to it, with the least permissions that a bridge needs. It is empty if there is no such subject,
// because the prefix of the asking bridge lies deeper within the other's than its events reach.
func proofSubject(asker, prover string) string {
	if within(prover, asker) {
		return prover + sysEvent
	}
	token, inside := strings.CutPrefix(asker, prover+".")
	if !inside || strings.Contains(token, ".") {
		return ""
	}
	return asker + ".event." + eventBridge // an event of the queue that has the token's name
}

// sysEvent follows a bridge's own prefix, or the prefix of the bridge that asks.
const sysEvent = "._sys.event." + eventBridge

// Prove answers a question for this bridge that carries a challenge.
func (r *Rivals) Prove(m *nats.Msg) {
	var c challenge
	if !strings.HasSuffix(m.Subject, "."+r.self.ID) || len(m.Data) == 0 || len(m.Data) > maxChallenge ||
		json.Unmarshal(m.Data, &c) != nil || c.Nonce == "" || len(c.Nonce) > maxNonce {
		return
	}
	if _, err := subjects.New(c.Prefix); err != nil {
		return
	}
	subject := proofSubject(c.Prefix, r.self.Prefix)
	if subject == "" {
		return
	}
	body, err := json.Marshal(proof{
		Type: protocol.EventTypePrefix + eventBridge, Time: time.Now().UTC().Format(time.RFC3339Nano),
		Nonce: c.Nonce, ID: r.self.ID, Prefix: r.self.Prefix, StoreID: r.self.StoreID, Started: r.self.Metadata()[metaStarted], Server: serverOf(r.nc),
	})
	if err == nil {
		err = r.nc.Publish(subject, body)
	}
	if err != nil {
		r.log.Debug("proving this bridge to another one failed", "error", err)
	}
}

// proven reads a proof. It replaces the hint about the bridge.
func (r *Rivals) proven(m *nats.Msg, nonce string) (Identity, bool) {
	var p proof
	if json.Unmarshal(m.Data, &p) != nil || p.Nonce != nonce || proofSubject(r.self.Prefix, p.Prefix) != m.Subject {
		return Identity{}, false
	}
	o := Identity{ID: p.ID, Prefix: p.Prefix, StoreID: p.StoreID, Started: startedOf(p.Started), Server: p.Server}
	return o, r.self.rivals(o)
}

// hint is a rival that has not proven itself yet.
type hint struct {
	Identity
	answers string // subject of the answers to its challenge
	far     bool   // its server is neither the server of this bridge nor in its cluster
	proven  bool
	gone    bool // no bridge receives the questions to it
}

// provable reports whether a hint can be a bridge at all: its prefix and its id have to be
// valid in subjects.
func (i Identity) provable() bool {
	_, err := subjects.New(i.Prefix)
	return err == nil && subjects.CheckQueue(i.ID) == nil
}

// open reports whether the proof of a hint may still come.
func (h hint) open() bool { return !h.proven && !h.gone }

func open(hints []hint) bool { return slices.ContainsFunc(hints, hint.open) }
