package jetstream

import (
	"context"
	"fmt"
	"time"
)

// Other streams of the account share its limit with the log.
const (
	accountEvery    = 2 * time.Second // between looks at an account with a limit
	accountSeldom   = time.Minute     // at an account without a limit
	accountAnswerIn = time.Second
)

// accountRoom is the last answer of an account about its room.
type accountRoom struct {
	until   time.Time // the answer counts
	limited bool
	left    uint64 // bytes that the stream still gets, if limited
}

// accountRoom returns how many bytes of the stream the account still takes, if it has a visible limit.
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
	// The account counts the bytes of all replicas, and so does its limit. The limit of a tier counts one replica.
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
