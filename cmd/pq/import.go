package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/cmd/pq/internal/named"
	"github.com/pqbridge/pqbridge/cmd/pq/internal/session"
	"github.com/pqbridge/pqbridge/cmd/pq/internal/show"
)

// importFlags are the flags of import.
type importFlags struct {
	file   string
	skip   int
	asNew  bool
	live   bool
	verify bool
	ids    bool
	strict bool
	resume bool
	runs   bool
	foreignFlags
}

func importCommand(s *session.Session) *cobra.Command {
	i := &importFlags{verify: true, ids: true}
	c := &cobra.Command{
		Use: "import <queue>", Args: session.Arguments(1, 1),
		Short: "put exported items back",
		Long: `Puts items where they stood when "pq export" wrote them: with their ids, their
order, headers, deliveries, time stamps, delays and times to live, in this or
another store. Leased items become ready. Items that the queue has already are
skipped, so an interrupted import can be run again.

The queue is paused during the import, unless --live is given: an item that is
popped before the end would come back if the import had to be run again. The queue
stays paused when the import fails, and when it was paused before; --resume ends
the pause after an import. A queue that does not exist is made with the
configuration it had, and its keys with the settings they had. These are in the
last line, so a pipe sets them at the end.

Schedules, sources and links of the export are made where the queue has none of
their names. They are paused, so that two queues do not do the same: --run lets
them run as they did. A source that copies goes on behind the last message that it
was done with, one that takes and a link begin anew. It takes the rights to set them.

The last line of the export proves that it is complete and unchanged. A file is
checked before anything is imported. --verify=false accepts changed exports. What
"pqd salvage" could not read is said at the end.

Lines without "id", which you may write yourself, are pushed as new items:
"payload" or "payload_base64", and optionally "priority" and "headers". With
--as-new all lines are, and all that the last line has stays behind. Run again within
2 minutes, it does not push them twice: what the file has had up to the line, or
the id, serves as message id. A queue remembers 1,000,000 of those unless configured otherwise;
--ids=false uses none.

--from imports the jobs of another system, with their order, priorities, delays
and attempts. It only reads there, and skips what the queue has, so it can be
run again, until the queue is resumed. Stop the workers of the system first. Jobs
that do not fit, such as one that is larger than the NATS server takes, go to the
file of --rejected, with the reason; the others come, and the exit code is 5. Name
Redis in the same words each time: jobs of another address are other jobs.`,
		Example: `  # from a file
  pq import jobs --file jobs.jsonl

  # a second time, as new items
  pq import jobs --as-new --file jobs.jsonl

  # the jobs of BullMQ, and those that have failed
  pq import emails --from bullmq:emails
  pq import emails --from bullmq:emails --failed

  # the tasks of Celery on Redis, for workers on pqd
  pq import celery --from celery:celery --redis redis://10.0.0.5:6379/0

  # a work queue of JetStream
  pq import orders --from jetstream:ORDERS --priority header:Urgency --key token:2

  # items that you wrote yourself
  echo '{"priority": 3, "payload": "hello"}' | pq import jobs`,
		RunE: func(c *cobra.Command, args []string) error {
			if i.from != "" {
				if !c.Flags().Changed("redis") {
					i.Redis = cmp.Or(s.Env["REDIS_URL"], i.Redis)
				}
				return i.foreignRun(s, args[0])
			}
			for _, name := range foreignOnly {
				if c.Flags().Changed(name) {
					return session.Usagef("--%s says how to read another system: expected --from, too", name)
				}
			}
			return i.run(s, args)
		},
	}
	i.add(c.Flags())
	return c
}

func (i *importFlags) add(f *pflag.FlagSet) {
	f.StringVarP(&i.file, "file", "f", i.file, "`file` to read; standard input if not given")
	f.IntVar(&i.skip, "skip", i.skip, "skip this `number` of lines at the beginning")
	f.BoolVar(&i.asNew, "as-new", i.asNew, "push the items as new ones, with new ids")
	f.BoolVar(&i.live, "live", i.live, "do not pause the queue during the import")
	f.BoolVar(&i.verify, "verify", i.verify, "require a complete, unchanged export")
	f.BoolVar(&i.ids, "ids", i.ids, "push with message ids, so that a repetition doubles nothing")
	f.BoolVar(&i.resume, "resume", i.resume, "resume the queue in the end, even if it was paused before")
	f.BoolVar(&i.runs, "run", i.runs, "let schedules, sources and links run as they did")
	i.foreignFlags.add(f)
	f.BoolVar(&i.strict, "strict", i.strict, "wait for each answer: slow, but keeps the order of pushes with several bridges")
}

// importRun is one run of the command.
type importRun struct {
	*importFlags
	session      *session.Session
	queue        *client.Queue
	pipe         *pipeline
	sum          *checksum
	trailer      *trailer       // of a file, which look has read
	placed       int64          // items sent to their places
	created      bool           // the queue did not exist
	before       *client.Config // of a queue that existed, once openQueue has looked
	paused       bool           // by this import
	pausedBefore bool           // before this import
	keepPaused   bool           // the queue was paused where its jobs come from
	keysSet      int64          // keys whose settings were set
	made         *named.Made    // of the definitions of the export, nil: it has none
}

func (i *importFlags) run(s *session.Session, args []string) error {
	in, total, err := i.open(s)
	if err != nil {
		return err
	}
	defer in.Close()
	j := &importRun{importFlags: i, session: s, sum: newChecksum()}
	if file, is := in.(*os.File); is && total > 0 {
		if j.trailer, err = i.look(s, file, total); err != nil {
			return fmt.Errorf("%s: %w; nothing was imported, --verify=false imports it anyway", i.file, err)
		}
	}
	c, err := s.ConnectPatiently()
	if err != nil {
		return err
	}
	j.queue = c.Queue(args[0])
	j.pipe = newPipeline(s, j.queue)
	p := s.Progress("importing", total, show.Size)
	started := time.Now()
	err = j.lines(io.TeeReader(in, counter(p.Add)))
	p.End()
	if err != nil {
		return j.stopped(fmt.Errorf("after %s (continue with --skip %d): %w", show.Many(j.pipe.done, "line"), j.pipe.done+int64(i.skip), err))
	}
	if err := j.finish(); err != nil {
		return err
	}
	refused := j.define()
	if err := j.summary(time.Since(started)); err != nil {
		return err
	}
	return refused
}

// open opens the input and returns its size, or 0 if that is unknown.
func (i *importFlags) open(s *session.Session) (io.ReadCloser, int64, error) {
	if i.file == "" || i.file == "-" {
		s.HintAtInput()
		return io.NopCloser(s.Input()), 0, nil
	}
	file, err := os.Open(i.file)
	if err != nil {
		return nil, 0, err
	}
	info, err := file.Stat()
	if err != nil {
		return nil, 0, errors.Join(err, file.Close())
	}
	if !info.Mode().IsRegular() {
		return file, 0, nil
	}
	return file, info.Size(), nil
}

// look checks a file before the import, and returns its last line. A file without ids is no
// export and has no checksum.
func (i *importFlags) look(s *session.Session, file *os.File, total int64) (*trailer, error) {
	p := s.Progress("checking", total, show.Size)
	defer p.End()
	all, exported := newChecksum(), false
	lines := lineScanner(io.TeeReader(file, counter(p.Add)))
	for lines.Scan() {
		item, err := all.line(lines.Bytes())
		if err != nil {
			return nil, err
		}
		if item && all.items == 1 {
			exported = hasID(lines.Bytes())
		}
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if exported && i.verify {
		if err := all.check(); err != nil {
			return nil, err
		}
	}
	_, err := file.Seek(0, io.SeekStart)
	return all.trailer, err
}

func hasID(line []byte) bool {
	var item struct{ ID string }
	return json.Unmarshal(line, &item) == nil && item.ID != ""
}

// finish compares the items with the last line of the export and resumes the queue.
func (r *importRun) finish() error {
	if r.sum.items == 0 && r.sum.trailer != nil && !r.asNew { // an empty queue has a configuration, too
		if err := r.openQueue(); err != nil {
			return err
		}
	}
	if r.placed > 0 && r.verify {
		if err := r.sum.check(); err != nil {
			return r.stopped(fmt.Errorf("imported %s, but %w (--verify=false skips this check)", show.Many(r.pipe.done, "item"), err))
		}
	}
	if r.created && r.trailer == nil && r.sum.trailer != nil {
		if err := r.configure(r.sum.trailer); err != nil {
			return err
		}
	}
	if r.paused && (r.resume || !r.keepPaused) || r.pausedBefore && r.resume {
		return r.queue.Resume(r.session.Context)
	}
	return nil
}

func (r *importRun) summary(took time.Duration) error {
	s, pipe := r.session, r.pipe
	if r.sum.items == 0 && r.sum.trailer == nil {
		s.Say("found nothing to import")
		return session.ExitError(session.ExitNothing)
	}
	verified := r.placed > 0 && r.verify
	missing := ""
	if r.sum.trailer != nil {
		missing = r.sum.trailer.Missing
	}
	if s.Global.JSON {
		done := map[string]any{
			"imported": pipe.done - pipe.doubles, "duplicates": pipe.doubles, "disordered": pipe.disorder, "verified": verified,
		}
		if missing != "" {
			done["missing"] = missing
		}
		if r.made != nil {
			done["made"] = r.made
		}
		return s.PrintJSON(done)
	}
	s.Say("imported %s in %s", show.Many(pipe.done-pipe.doubles, "item"), show.Span(took))
	switch {
	case pipe.doubles > 0 && r.placed > 0:
		s.Say("skipped %s that the queue had already", show.Many(pipe.doubles, "item"))
	case pipe.doubles > 0:
		s.Say("skipped %s imported within the last minutes", show.Many(pipe.doubles, "item"))
	}
	if pipe.disorder > 0 {
		s.Say("the order of %s differs from the file, because a push was repeated or several bridges serve the queue: --strict keeps the order", show.Many(pipe.disorder, "item"))
	}
	if missing != "" {
		s.Say("the export may lack a part of the queue: %s", missing)
	} else if verified {
		s.Say("all %s of the export are there, unchanged", show.Many(r.sum.items, "item"))
	}
	names, err := r.kept()
	if err != nil {
		return err
	}
	if len(names) > 0 {
		s.Say("kept the configuration of the queue, which differs from the export in %s: an import sets it when it makes the queue", strings.Join(names, ", "))
	}
	if r.keysSet > 0 {
		s.Say("set the settings of %s", show.Many(r.keysSet, "key"))
	} else if t := r.sum.trailer; t != nil && len(t.Keys) > 0 && !r.asNew {
		s.Say("did not set the settings of %s in the export: an import does so when it makes the queue", show.Many(int64(len(t.Keys)), "key"))
	}
	if r.paused && r.keepPaused && !r.resume {
		s.Say(`the queue stays paused, as it is where its jobs come from: "%s" resumes it`, r.resumes())
	}
	if r.made != nil {
		for _, line := range r.made.Lines(r.runs) {
			s.Say("%s", line)
		}
	}
	if r.pausedBefore && !r.resume {
		s.Say(`the queue stays paused, as it was before the import: "%s" resumes it`, r.resumes())
	}
	return nil
}

// counter is a writer that counts.
type counter func(n int64)

func (c counter) Write(b []byte) (int, error) {
	c(int64(len(b)))
	return len(b), nil
}

// openQueue makes the queue if it does not exist, and stops deliveries until all items are
// in their places. What the end of a pipe says of a new queue, finish sets.
func (r *importRun) openQueue() error {
	ctx := r.session.Context
	info, err := r.queue.Info(ctx)
	switch {
	case err == nil:
		r.before, r.pausedBefore = &info.Config, info.Paused && !r.live
	case !errors.Is(err, client.ErrNotFound):
		return err
	default:
		r.created = true
		if err := r.configure(r.trailer); err != nil {
			return err
		}
	}
	if r.live || r.pausedBefore {
		return nil
	}
	if err := r.queue.Pause(ctx); err != nil {
		return fmt.Errorf("pause the queue (--live imports without a pause): %w", err)
	}
	r.paused = true
	return nil
}

// configure creates the queue, with the configuration and the settings of keys of the
// export if these are known.
func (r *importRun) configure(from *trailer) error {
	var change client.ConfigChange
	if from != nil && from.Config != nil {
		change = *from.Config
	}
	if _, err := r.queue.Configure(r.session.Context, change); err != nil || from == nil {
		return err
	}
	for _, key := range slices.Sorted(maps.Keys(from.Keys)) {
		if _, err := r.queue.SetKey(r.session.Context, key, client.KeyChange{KeySettings: from.Keys[key]}); err != nil {
			return fmt.Errorf("settings of the key %q: %w", key, err)
		}
		r.keysSet++
	}
	return nil
}

// define makes the schedules, sources and links of the export, behind the items: those are there, whatever is refused here.
func (r *importRun) define() error {
	t := r.sum.trailer
	if t == nil || r.asNew || r.placed == 0 && r.sum.items > 0 || len(t.Schedules)+len(t.Sources)+len(t.Links) == 0 {
		return nil
	}
	made, err := named.Make(r.session.Context, r.queue, &t.Definitions, r.created, r.runs)
	r.made = &made
	return err
}

// kept are the fields in which the configuration of a queue that was there differs from the
// one in the export, of those that the export has.
func (r *importRun) kept() (names []string, err error) {
	t := r.sum.trailer
	if r.before == nil || t == nil || t.Config == nil {
		return nil, nil
	}
	text, err := json.Marshal(t.Config)
	if err != nil {
		return nil, err
	}
	exported := *r.before
	if err := json.Unmarshal(text, &exported); err != nil {
		return nil, err
	}
	changed := configFields(exported)
	for i, field := range configFields(*r.before) {
		if field != changed[i] {
			names = append(names, field.name)
		}
	}
	return names, nil
}

// resumes is the command that resumes the queue.
func (r *importRun) resumes() string { return show.Command("resume", []string{r.queue.Name()}) }

// stopped ends an import that failed. The queue stays paused if it may have some of the items, also where
// the first one was refused: later ones were on their way.
func (r *importRun) stopped(err error) error {
	switch {
	case r.paused && !r.pipe.came:
		return errors.Join(err, r.queue.Resume(context.WithoutCancel(r.session.Context)))
	case r.paused || r.pausedBefore:
		r.session.Unfinished = fmt.Sprintf(`The queue %s is paused: run the import again with --resume, or resume it with "%s".`, r.queue.Name(), r.resumes())
	}
	return err
}
