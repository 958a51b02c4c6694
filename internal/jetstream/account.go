package jetstream

import (
	"context"
	"fmt"
	"time"
)

// Other streams of the account share its limit with the log.
const (
	accountEvery    = 2 * time.Second // between looks at an account with a limit
	accountSeldom   = time.Minute     // at one without
	accountAnswerIn = time.Second
)

// accountRoom is what an account said last.
type accountRoom struct {
	until   time.Time // it counts
	limited bool
	left    uint64 // bytes that the stream still gets, if limited
}

// accountRoom returns how many bytes the account still takes of the stream, if it has a limit that
// can be seen.
func (l *Log) accountRoom(ctx context.Context) (left uint64, limited bool) {
	seen := l.account.Load()
	if seen == nil || time.Now().After(seen.until) {
		seen = l.lookAtAccount(ctx)
		l.account.Store(seen)
	}
	return seen.left, seen.limited
}

func (l *Log) lookAtAccount(ctx context.Context) *accountRoom {
	ctx, cancel := context.WithTimeout(ctx, accountAnswerIn)
	defer cancel()
	info, err := l.js.AccountInfo(ctx)
	if err != nil {
		return &accountRoom{until: time.Now().Add(accountSeldom)}
	}
	// The account counts what all replicas take. Its limit does so too, but that of a tier is one
	// of a replica.
	replicas := int64(l.options.replicas())
	used, limit := info.Store, info.Limits.MaxStore
	if tier, has := info.Tiers[fmt.Sprintf("R%d", replicas)]; has {
		used, limit = tier.Store, tier.Limits.MaxStore
		if limit > 0 {
			limit *= replicas
		}
	}
	if limit <= 0 {
		return &accountRoom{until: time.Now().Add(accountSeldom)}
	}
	return &accountRoom{
		until: time.Now().Add(accountEvery), limited: true,
		left: uint64(max(0, limit-int64(used)) / replicas),
	}
}
