package peers

import (
	"time"

	"github.com/nats-io/nats.go/micro"
)

// Identity is what a bridge reports about itself.
type Identity struct {
	ID      string    // of the bridge, from its start to its end
	Prefix  string    // of the subjects that it serves
	StoreID string    // a copy of a store has the id of its original
	Started time.Time // zero for a bridge whose store can be shared
}

// Metadata of the NATS service that a bridge is.
const (
	metaPrefix  = "prefix"
	metaStoreID = "store_id"
	metaStarted = "started" // of bridges that have their store for themselves
)

// Metadata is the identity, without the id, as service discovery shows it.
func (i Identity) Metadata() map[string]string {
	meta := map[string]string{metaPrefix: i.Prefix, metaStoreID: i.StoreID}
	if i.exclusive() {
		meta[metaStarted] = i.Started.UTC().Format(time.RFC3339Nano)
	}
	return meta
}

// identityOf reads what service discovery shows.
func identityOf(s micro.ServiceIdentity) Identity {
	return Identity{ID: s.ID, Prefix: s.Metadata[metaPrefix], StoreID: s.Metadata[metaStoreID], Started: startedOf(s.Metadata[metaStarted])}
}

// startedOf reads a time. One that cannot be read is none: such a bridge is never
// the one that goes on standby.
func startedOf(text string) time.Time {
	started, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return time.Time{}
	}
	return started
}

// exclusive reports whether only this bridge's process can open its store.
func (i Identity) exclusive() bool { return !i.Started.IsZero() }
