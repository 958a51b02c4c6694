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
	b := &Bridged{Store: Store(t), NATS: NATS(t)}
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
