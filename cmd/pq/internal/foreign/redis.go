package foreign

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/redis/go-redis/v9"
)

// page is how many entries of Redis one request reads.
const page = 500

// hashPage is how many jobs one request reads, each of which may have a megabyte.
const hashPage = 50

// quiet is the log of the Redis client: what it would say is in the errors, too.
type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}

func dialRedis(address string) (*redis.Client, error) {
	redis.SetLogger(quiet{})
	o, err := redis.ParseURL(address)
	if err != nil { // it may have a password, and so may the error
		return nil, errors.New("address of Redis: expected redis://<user>:<password>@<host>:<port>/<database>, or rediss: with TLS; signs such as @ and / in a password as %40 and %2F")
	}
	return redis.NewClient(o), nil
}

// placeOf names the database that a client reads.
func placeOf(r *redis.Client) string {
	o := r.Options()
	return fmt.Sprintf("%s/%d", o.Addr, o.DB)
}

// fromTheEnd reads a list from its last entry to its first one, as workers take them. What
// producers add meanwhile is at the other end.
func fromTheEnd(ctx context.Context, r *redis.Client, key string, entries func([]string) error) error {
	for n := int64(0); ; n += page {
		found, err := r.LRange(ctx, key, -n-page, -n-1).Result()
		if err != nil || len(found) == 0 {
			return err
		}
		slices.Reverse(found)
		if err := entries(found); err != nil || len(found) < page {
			return err
		}
	}
}

// byScore reads a sorted set.
func byScore(ctx context.Context, r *redis.Client, key string, entries func([]redis.Z) error) error {
	for n := int64(0); ; n += page {
		found, err := r.ZRangeWithScores(ctx, key, n, n+page-1).Result()
		if err != nil || len(found) == 0 {
			return err
		}
		if err := entries(found); err != nil || len(found) < page {
			return err
		}
	}
}
