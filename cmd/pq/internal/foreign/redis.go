package foreign

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
)

// database is one of a Redis server. A connection that is lost costs the request under way; the next one connects anew.
type database struct {
	pool  *redis.Pool
	place string // of the keys, which another server, or another database, has, too
}

const (
	connectLimit = 5 * time.Second
	answerLimit  = 30 * time.Second // a page may have hundreds of large jobs
	idleLimit    = time.Minute      // behind that the server may have closed the connection
)

func dialRedis(address string) (*database, error) {
	u, err := url.Parse(address)
	number := 0
	if err == nil {
		if path := strings.Trim(u.Path, "/"); path != "" {
			number, err = strconv.Atoi(path)
		}
	}
	if err != nil || number < 0 || u.Opaque != "" || u.Scheme != "redis" && u.Scheme != "rediss" { // it may have a password, and so may the error
		return nil, errors.New("address of Redis: expected redis://<user>:<password>@<host>:<port>/<database>, or rediss: with TLS; signs such as @ and / in a password as %40 and %2F")
	}
	server := net.JoinHostPort(cmp.Or(u.Hostname(), "localhost"), cmp.Or(u.Port(), "6379"))
	password, _ := u.User.Password()
	return &database{
		pool: &redis.Pool{MaxIdle: 1, IdleTimeout: idleLimit, DialContext: func(ctx context.Context) (redis.Conn, error) {
			return redis.DialContext(ctx, "tcp", server, redis.DialDatabase(number), redis.DialUsername(u.User.Username()), redis.DialPassword(password),
				redis.DialUseTLS(u.Scheme == "rediss"), redis.DialConnectTimeout(connectLimit), redis.DialReadTimeout(answerLimit), redis.DialWriteTimeout(answerLimit))
		}},
		place: fmt.Sprintf("%s/%d", server, number),
	}, nil
}

func (d *database) Close() error { return d.pool.Close() }

func (d *database) do(ctx context.Context, command string, args ...any) (any, error) {
	c, err := d.pool.GetContext(ctx)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	return redis.DoContext(c, ctx, command, args...)
}

// count is the answer to a command that counts what a key has.
func (d *database) count(ctx context.Context, command, key string) (int64, error) {
	return redis.Int64(d.do(ctx, command, key))
}

// hashes reads hashes with one request. One that does not exist is empty.
func (d *database) hashes(ctx context.Context, keys []string) (found []map[string]string, err error) {
	c, err := d.pool.GetContext(ctx)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	for _, key := range keys {
		if err := c.Send("HGETALL", key); err != nil {
			return nil, err
		}
	}
	if err := c.Flush(); err != nil {
		return nil, err
	}
	for range keys {
		hash, err := redis.StringMap(redis.ReceiveContext(c, ctx))
		if err != nil {
			return nil, err
		}
		found = append(found, hash)
	}
	return found, nil
}

// eachField reads a hash, some fields at a time. What changes meanwhile may come twice.
func (d *database) eachField(ctx context.Context, key string, each func(name, value string) error) error {
	for cursor := "0"; ; {
		answer, err := redis.Values(d.do(ctx, "HSCAN", key, cursor, "COUNT", page))
		if err != nil {
			return err
		}
		var fields []string
		if _, err := redis.Scan(answer, &cursor, &fields); err != nil {
			return err
		}
		for field := range slices.Chunk(fields, 2) {
			if err := each(field[0], field[1]); err != nil {
				return err
			}
		}
		if cursor == "0" {
			return nil
		}
	}
}

// page is how many entries one request reads.
const page = 500

// fromTheEnd reads a list from its last entry to its first one, as workers take them. What
// producers add meanwhile is at the other end.
func (d *database) fromTheEnd(ctx context.Context, key string, entries func([]string) error) error {
	for n := 0; ; n += page {
		found, err := redis.Strings(d.do(ctx, "LRANGE", key, -n-page, -n-1))
		if err != nil || len(found) == 0 {
			return err
		}
		slices.Reverse(found)
		if err := entries(found); err != nil || len(found) < page {
			return err
		}
	}
}

// scored is an entry of a sorted set.
type scored struct {
	Member string
	Score  float64
}

// byScore reads a sorted set.
func (d *database) byScore(ctx context.Context, key string, entries func([]scored) error) error {
	for n := 0; ; n += page {
		answer, err := redis.Values(d.do(ctx, "ZRANGE", key, n, n+page-1, "WITHSCORES"))
		if err != nil || len(answer) == 0 {
			return err
		}
		var found []scored
		if err := redis.ScanSlice(answer, &found); err != nil {
			return err
		}
		if err := entries(found); err != nil || len(found) < page {
			return err
		}
	}
}
