package bridge

import "time"

// TurnPatience has a bridge wait so long for others before it takes from a
// queue. It may not have lost to any yet.
func TurnPatience(b *Bridge, d time.Duration) { b.peers.Turns.Patience = d }

// PresencePatience has a bridge wait so long for the server to say whether a
// client is present. Nothing may have been asked yet.
func PresencePatience(b *Bridge, d time.Duration) { b.presence.patience = d }

// StuckAfter has pushes refused that have waited so long for one under way.
func StuckAfter(b *Bridge, d time.Duration) {
	b.lanes.push.mu.Lock()
	defer b.lanes.push.mu.Unlock()
	b.lanes.push.stuck = stuckTimes{d, d}
}

// Lanes returns how many lanes wait for work, of all kinds.
func Lanes(b *Bridge) (idle int) {
	for _, ls := range b.lanes.all() {
		ls.mu.Lock()
		idle += len(ls.idle)
		ls.mu.Unlock()
	}
	return idle
}

// AwaitLanes returns when no lane is left.
func AwaitLanes(b *Bridge) {
	for _, ls := range b.lanes.all() {
		ls.running.Wait()
	}
}
