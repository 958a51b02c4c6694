package testenv

import (
	"testing"

	"github.com/pqbridge/pqbridge/bridge"
	"github.com/pqbridge/pqbridge/fdbpq"
)

// Bridged is a bridge with its NATS server and store.
type Bridged struct {
	NATS   *Server
	Store  *fdbpq.Store
	Bridge *bridge.Bridge
}

// Bridge starts a bridge on a NATS server and a store of its own. When the test
// ends the bridge drains, which must succeed, before the store is checked.
func Bridge(t testing.TB, options bridge.Options) *Bridged {
	t.Helper()
	return BridgeOn(t, NATS(t), options)
}

// BridgeOn does the same on a NATS server that is there. With the server's Interest the bridge knows which clients listen, as pqd's
// own does. Otherwise it asks the server, and serves a pop for good without an answer when that takes long.
func BridgeOn(t testing.TB, srv *Server, options bridge.Options) *Bridged {
	t.Helper()
	b := &Bridged{Store: Store(t), NATS: srv}
	ctx, cancel := background()
	defer cancel()
	var err error
	nc := b.NATS.Connect(t, bridge.ConnectOptions(options.Logger)...)
	if b.Bridge, err = bridge.Start(ctx, nc, b.Store, options); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := background()
		defer cancel()
		if err := b.Bridge.Drain(ctx); err != nil {
			t.Errorf("drain the bridge: %v", err)
		}
	})
	return b
}
