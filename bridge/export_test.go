package bridge

import "time"

// ContestPatience has a bridge wait so long for others in a contest.
func ContestPatience(b *Bridge, d time.Duration) {
	b.contests.mu.Lock()
	defer b.contests.mu.Unlock()
	b.contests.patience = d
}
