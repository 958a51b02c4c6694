package main

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/spf13/pflag"

	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/cmd/pq/internal/foreign"
	"github.com/pqbridge/pqbridge/cmd/pq/internal/session"
	"github.com/pqbridge/pqbridge/cmd/pq/internal/show"
	"github.com/pqbridge/pqbridge/subjects"
)

// foreignFlags are the flags of import for the jobs of other systems.
type foreignFlags struct {
	from     string
	rejected string
	foreign.Options
}

// foreignOnly are the flags that mean nothing without --from.
var foreignOnly = []string{"redis", "redis-prefix", "rejected", "held", "failed", "priority", "key"}

func (i *foreignFlags) add(f *pflag.FlagSet) {
	f.StringVar(&i.from, "from", i.from, "import the jobs of another `system`: bullmq:<queue>, celery:<queue> or jetstream:<stream>")
	f.StringVar(&i.Redis, "redis", "redis://127.0.0.1:6379/0", "`address` of Redis, for BullMQ and Celery, which REDIS_URL sets, too; rediss: with TLS")
	f.StringVar(&i.Prefix, "redis-prefix", i.Prefix, "`prefix` of the keys in Redis, if it is not that of the system")
	f.StringVar(&i.rejected, "rejected", i.rejected, "`file` for the jobs that do not fit into the queue (default <queue>-rejected.jsonl)")
	f.BoolVar(&i.Held, "held", i.Held, "import jobs that workers hold, too; the workers must have ended")
	f.BoolVar(&i.Failed, "failed", i.Failed, "import the failed jobs of BullMQ, and no others, as dead letters of the queue")
	f.StringVarP(&i.Priority, "priority", "p", i.Priority, "of messages of a stream: header:<name>, token:<number> of the subject, or a `value`")
	f.StringVar(&i.Key, "key", i.Key, "of messages of a stream: header:<name>, token:<number> of the subject, or a `value`")
}

// foreignRun imports the jobs of another system.
func (i *importFlags) foreignRun(s *session.Session, queue string) (err error) {
	if i.file != "" || i.skip > 0 || i.asNew || i.strict {
		return session.Usagef("--from reads another system: expected it without --file, --skip, --as-new and --strict")
	}
	i.verify = false // there is no export
	source, err := foreign.Open(i.from, i.Options, func() (*nats.Conn, error) {
		return s.DialWith(func(err error) { s.Warn(err) })
	})
	if err != nil {
		return session.Usagef("--from %s: %w", i.from, err)
	}
	defer func() { err = errors.Join(err, source.Close()) }()
	census, err := source.Census(s.Context)
	if err != nil {
		return fmt.Errorf("%s: %w", i.from, err)
	}
	if census.Held > 0 && !i.Held {
		return fmt.Errorf("workers of %s hold %s: stop them and wait until they have ended, or import these, too, with --held; what a worker goes on with is done twice",
			i.from, show.Many(census.Held, "job"))
	}
	c, err := s.ConnectPatiently()
	if err != nil {
		return err
	}
	origin := queue
	if i.Failed {
		queue = subjects.DeadLetter(queue)
	}
	j := &importRun{importFlags: i, session: s, sum: newChecksum(), queue: c.Queue(queue), keepPaused: census.Paused}
	j.pipe = newPipeline(s, j.queue)
	rejects := &rejects{name: cmp.Or(i.rejected, queue+"-rejected.jsonl")}
	j.pipe.misfit = rejects.add
	p := s.Progress("importing", census.Jobs, func(n int64) string { return show.Thousands(n) })
	j.pipe.progress = p.Set
	started := time.Now()
	err = source.Each(s.Context, func(job foreign.Job) error { return j.foreignJob(job, origin, rejects) })
	err = errors.Join(err, j.pipe.laterError(), rejects.end())
	p.End()
	if err != nil {
		return j.stopped(fmt.Errorf("after %s (run the import again: what the queue has is skipped): %w", show.Many(j.pipe.done, "job"), err))
	}
	if err := j.finish(); err != nil {
		return err
	}
	if err := j.summary(time.Since(started)); err != nil {
		return err
	}
	for _, left := range census.Left {
		s.Say("left behind: %s", left)
	}
	if rejects.jobs > 0 {
		s.Say("rejected %s, which %s has with the reasons, such as %s", show.Many(rejects.jobs, "job"), rejects.name, rejects.first)
		return session.ExitError(session.ExitIncomplete)
	}
	return nil
}

// foreignJob imports one job. One that has failed died in the queue origin.
func (r *importRun) foreignJob(job foreign.Job, origin string, rejects *rejects) error {
	if r.placed == 0 {
		if err := r.openQueue(); err != nil {
			return err
		}
	}
	r.placed++
	r.sum.items++
	if job.Dead != nil {
		job.Dead.Origin = origin
	}
	if job.Wrong != nil {
		return rejects.add(placement{job.Import, job.Name}, job.Wrong)
	}
	return r.pipe.place(job.Import, job.Name)
}

// rejects are the jobs that do not fit into the queue. They go into a file, so that one of them does not keep the others out.
type rejects struct {
	name  string
	out   *outputFile // nil: there is none yet
	jobs  int64
	first string // why the first one is among them
}

// reject is a line of the file. Once it is mended, pq import --file pushes it.
type reject struct {
	Job   string `json:"job"`
	Error string `json:"error"`
	*show.Item
}

func (r *rejects) add(i placement, why error) (err error) {
	if r.out == nil {
		if r.out, err = createOutput(r.name, true); err != nil {
			return err
		}
	}
	line := reject{Job: i.name, Error: session.WithoutPrefix(why), Item: &show.Item{}}
	line.Priority, line.Key, line.Unique, line.UniqueUntil = i.Priority, i.Key, i.Unique, i.UniqueUntil
	line.Pushed, line.Expires, line.Deliveries, line.LastAttempts, line.Dead = i.Pushed, i.Expires, int64(i.Deliveries), i.Attempts, i.Dead
	if !i.NotBefore.IsZero() {
		line.State, line.Due = client.Delayed, i.NotBefore
	}
	line.SetHeaders(i.Header)
	line.SetPayload(i.Payload)
	if r.jobs++; r.jobs == 1 {
		r.first = line.Job + ": " + line.Error
	}
	return show.WriteJSON(r.out, line)
}

// end gives the file its name.
func (r *rejects) end() error {
	if r.out == nil {
		return nil
	}
	return r.out.end(nil)
}
