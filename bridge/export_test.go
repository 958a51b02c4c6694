package bridge

import (
	"time"

	"github.com/pqbridge/pqbridge/bridge/batch"
)

// TurnPatience has a bridge wait so long for others before it takes from a
// queue. It may not have lost to any yet.
func TurnPatience(b *Bridge, d time.Duration) { b.peers.Turns.Patience = d }

// PresencePatience has a bridge wait so long for the server to say whether a
// client is present. Nothing may have been asked yet.
func PresencePatience(b *Bridge, d time.Duration) { b.presence.patience = d }

// StuckAfter has pushes refused that have waited so long for one under way.
func StuckAfter(b *Bridge, d time.Duration) {
	b.lanes.push.SetPatience(batch.Patience{First: d, Then: d})
}

// Lanes returns how many lanes wait for work, of all kinds.
func Lanes(b *Bridge) (idle int) {
	for _, kind := range b.lanes.all() {
		idle += kind.Idle()
	}
	return idle
}

// AwaitLanes returns when no lane is left.
func AwaitLanes(b *Bridge) {
	for _, kind := range b.lanes.all() {
		kind.Wait()
	}
}
