package foreign

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/redis/go-redis/v9"

	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/internal/reason"
)

// Source has the jobs of another system.
type Source interface {
	// Census counts them.
	Census(context.Context) (Census, error)

	// Each reads the jobs, in their order, until job returns an error.
	Each(ctx context.Context, job func(Job) error) error

	Close() error
}

// Job is a job of another system, as an item.
type Job struct {
	*client.Import
	Name  string // for people
	Wrong error  // why it cannot be an item; then Import has what could be read
}

// Census is how many jobs a source has.
type Census struct {
	Jobs int64    // that Each reads
	Held int64    // of them or beside them, with workers
	Left []string // what stays behind, for people

	Paused bool // the queue hands out nothing there
}

// Options say what to read, and where.
type Options struct {
	Redis  string // address of Redis
	Prefix string // of the keys there; "": as the system has it
	Held   bool   // jobs that workers hold, too
	Failed bool   // those that have failed, and nothing else

	// Values of items that are taken from messages of a stream; "": none.
	Priority, Key string
}

// Open returns the source that a text such as bullmq:emails names. A stream is read by the
// connection.
func Open(name string, o Options, connect func() (*nats.Conn, error)) (Source, error) {
	system, name, _ := strings.Cut(name, ":")
	open, known := map[string]func() (Source, error){
		"bullmq":    func() (Source, error) { return openBullMQ(name, o) },
		"celery":    func() (Source, error) { return openCelery(name, o) },
		"jetstream": func() (Source, error) { return openStream(name, o, connect) },
	}[system]
	if !known || name == "" {
		return nil, fmt.Errorf("expected bullmq:<queue>, celery:<queue> or jetstream:<stream>")
	}
	if o.Failed && system != "bullmq" {
		return nil, fmt.Errorf("%s keeps no jobs that have failed", system)
	}
	if system != "jetstream" && (o.Priority != "" || o.Key != "") {
		return nil, fmt.Errorf("priorities and keys are taken from the messages of streams alone")
	}
	return open()
}

// maxDeadReason is how long a reason of a dead letter may be.
const maxDeadReason = 512

// shorten is a reason as pqd keeps it.
func shorten(text string, most int) string { return strings.TrimSpace(reason.Text(text, most)) }

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
