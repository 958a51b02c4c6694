package peers

import (
	"crypto/rand"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/subjects"
)

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
