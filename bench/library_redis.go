package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
)

// Redis keeps the queue as in the other tables.

// leaseEach leases and acknowledges with each of the workers, until ctx ends or there are no items.
func leaseEach(ctx context.Context, workers int, handled func(),
	lease func(context.Context) (string, error), acknowledge func(context.Context, string) error) error {
	return together(ctx, workers, func(ctx context.Context) error {
		for ctx.Err() == nil {
			item, err := lease(context.WithoutCancel(ctx))
			if errors.Is(err, errEmpty) {
				return nil
			}
			if err == nil {
				handled()
				err = acknowledge(context.WithoutCancel(ctx), item)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// goRedisCommands are what a client and its AutoPipeline have both.
type goRedisCommands interface {
	ZAdd(ctx context.Context, key string, members ...redis.Z) *redis.IntCmd
	ZRem(ctx context.Context, key string, members ...any) *redis.IntCmd
	EvalSha(ctx context.Context, sha string, keys []string, args ...any) *redis.Cmd
}

// goRedis is go-redis, with or without its AutoPipeline.
type goRedis struct {
	client *redis.Client
	to     goRedisCommands
	end    func() error
	script *redis.Script
}

func newGoRedis(addr string, workers int) *goRedis {
	c := redis.NewClient(&redis.Options{Addr: addr, PoolSize: workers, MinIdleConns: workers})
	return &goRedis{client: c, to: c, end: func() error { return nil }, script: redis.NewScript(leaseScript)}
}

func openGoRedis(addr string, workers int) (library, error) {
	l := newGoRedis(addr, workers)
	return l, l.script.Load(context.Background(), l.client).Err()
}

func openAutoPipeline(addr string, workers int) (library, error) {
	l := newGoRedis(addr, workers)
	pipeline, err := l.client.AutoPipeline()
	if err != nil {
		return nil, errors.Join(err, l.client.Close())
	}
	l.to, l.end = pipeline, pipeline.Close
	return l, l.script.Load(context.Background(), l.client).Err()
}

func (l *goRedis) push(ctx context.Context, priority int, payload []byte) error {
	n, err := l.to.ZAdd(ctx, redisQueue, redis.Z{Score: float64(priority), Member: payload}).Result()
	if err == nil && n != 1 {
		err = fmt.Errorf("added %d items, expected one", n)
	}
	return err
}

func (l *goRedis) work(ctx context.Context, workers int, handled func()) error {
	return leaseEach(ctx, workers, handled, func(ctx context.Context) (string, error) {
		item, err := l.to.EvalSha(ctx, l.script.Hash(), []string{redisQueue, redisLeased}, 1).StringSlice()
		if err != nil || len(item) == 0 {
			return "", errors.Join(err, errEmpty)
		}
		return item[0], nil
	}, func(ctx context.Context, item string) error {
		return l.to.ZRem(ctx, redisLeased, item).Err()
	})
}

func (l *goRedis) clear(ctx context.Context) error {
	return l.client.Del(ctx, redisQueue, redisLeased).Err()
}

func (l *goRedis) close() error { return errors.Join(l.end(), l.client.Close()) }

// rueidisLibrary is rueidis.
type rueidisLibrary struct {
	client rueidis.Client
	script *rueidis.Lua
}

func openRueidis(addr string, _ int) (library, error) {
	c, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{addr}, DisableCache: true})
	if err != nil {
		return nil, err
	}
	return rueidisLibrary{c, rueidis.NewLuaScript(leaseScript)}, nil
}

func (l rueidisLibrary) push(ctx context.Context, priority int, payload []byte) error {
	n, err := l.client.Do(ctx, l.client.B().Zadd().Key(redisQueue).ScoreMember().ScoreMember(float64(priority), rueidis.BinaryString(payload)).Build()).AsInt64()
	if err == nil && n != 1 {
		err = fmt.Errorf("added %d items, expected one", n)
	}
	return err
}

func (l rueidisLibrary) work(ctx context.Context, workers int, handled func()) error {
	return leaseEach(ctx, workers, handled, func(ctx context.Context) (string, error) {
		item, err := l.script.Exec(ctx, l.client, []string{redisQueue, redisLeased}, []string{"1"}).AsStrSlice()
		if err != nil || len(item) == 0 {
			return "", errors.Join(err, errEmpty)
		}
		return item[0], nil
	}, func(ctx context.Context, item string) error {
		return l.client.Do(ctx, l.client.B().Zrem().Key(redisLeased).Member(item).Build()).Error()
	})
}

func (l rueidisLibrary) clear(ctx context.Context) error {
	return l.client.Do(ctx, l.client.B().Del().Key(redisQueue, redisLeased).Build()).Error()
}

func (l rueidisLibrary) close() error {
	l.client.Close()
	return nil
}
