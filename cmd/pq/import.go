package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/protocol"
)

// importing are the flags of import.
type importing struct {
	file   string
	skip   int
	asNew  bool
	live   bool
	verify bool
	ids    bool
	strict bool
	resume bool
}

func importCommand(s *session) *cobra.Command {
	i := &importing{verify: true, ids: true}
	c := &cobra.Command{
		Use: "import <queue>", Args: arguments(1, 1),
		Short: "put exported items back",
		Long: `Puts items where they stood when "pq export" wrote them: with their ids, their
order, headers, deliveries, time stamps, delays and times to live, in this or
another store. Leased items become ready. Items that are there already are not
doubled, so an import that was interrupted can be run again.

The queue is paused during the import, unless --live is given: an item that is
popped before the end would come back if the import had to be run again. The queue
stays paused when the import fails, and when it was paused before; --resume ends
the pause after an import. A queue that does not exist is made with the
configuration it had.

The last line of the export proves that it is whole and unchanged. A file is
checked before anything is imported. --verify=false accepts changed exports.

Lines without "id", which you may write yourself, are pushed as new items:
"payload" or "payload_base64", and optionally "priority" and "headers". With
--as-new all lines are. Run again within 2 minutes, it does not push them twice:
the numbers of lines, or the ids, serve as message ids. A queue remembers
1,000,000 of those unless configured otherwise; --ids=false uses none.`,
		Example: `  # from a file
  pq import jobs --file jobs.jsonl

  # a second time, as new items
  pq import jobs --as-new --file jobs.jsonl

  # items that you wrote yourself
  echo '{"priority": 3, "payload": "hello"}' | pq import jobs`,
		RunE: func(_ *cobra.Command, args []string) error { return i.run(s, args) },
	}
	f := c.Flags()
	f.StringVarP(&i.file, "file", "f", i.file, "`file` to read; standard input if not given")
	f.IntVar(&i.skip, "skip", i.skip, "skip this `number` of lines at the beginning")
	f.BoolVar(&i.asNew, "as-new", i.asNew, "push the items as new ones, with new ids")
	f.BoolVar(&i.live, "live", i.live, "do not pause the queue during the import")
	f.BoolVar(&i.verify, "verify", i.verify, "require an export that is whole and unchanged")
	f.BoolVar(&i.ids, "ids", i.ids, "push with message ids, so that a repetition doubles nothing")
	f.BoolVar(&i.resume, "resume", i.resume, "resume the queue in the end, even if it was paused before")
	f.BoolVar(&i.strict, "strict", i.strict, "wait for each answer: slow, but keeps the order of pushes with several bridges")
	return c
}

func (i *importing) run(s *session, args []string) error {
	in, total, err := i.open(s)
	if err != nil {
		return err
	}
	defer in.Close()
	j := &restore{importing: i, session: s, sum: newChecksum()}
	if file, is := in.(*os.File); is && total > 0 {
		if j.trailer, err = i.look(s, file, total); err != nil {
			return fmt.Errorf("%s: %w; nothing was imported, --verify=false does it all the same", i.file, err)
		}
	}
	c, err := s.connectPatiently()
	if err != nil {
		return err
	}
	j.queue = c.Queue(args[0])
	j.pipe = newPipeline(s, j.queue)
	p := s.progress("importing", total, size)
	started := time.Now()
	err = j.lines(io.TeeReader(in, counter(p.add)))
	p.end()
	if err != nil {
		return j.stopped(fmt.Errorf("after %s (go on with --skip %d): %w", many(j.pipe.done, "line"), j.pipe.done+int64(i.skip), err))
	}
	if err := j.finish(); err != nil {
		return err
	}
	return j.summary(time.Since(started))
}

// open opens what is read, and says how long it is if it can.
func (i *importing) open(s *session) (io.ReadCloser, int64, error) {
	if i.file == "" || i.file == "-" {
		s.hintAtInput()
		return io.NopCloser(s.input()), 0, nil
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

// look reads a file to its end and says what is wrong with it, before anything
// is imported. Lines that nobody exported cannot be checked.
func (i *importing) look(s *session, file *os.File, total int64) (*protocol.ExportTrailer, error) {
	p := s.progress("checking", total, size)
	defer p.end()
	all, exported := newChecksum(), false
	lines := lineScanner(io.TeeReader(file, counter(p.add)))
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

// counter is a writer that counts.
type counter func(n int64)

func (c counter) Write(b []byte) (int, error) {
	c(int64(len(b)))
	return len(b), nil
}

// pushLine pushes a line as a new item.
func (i *importing) pushLine(pipe *pipeline, n int, read *imported) error {
	options := []client.PushOption{client.Header(read.Headers), client.WithoutMsgID()}
	if read.Priority != nil {
		options = append(options, client.Priority(*read.Priority))
	}
	if read.State == client.Delayed && time.Now().Before(read.Due) {
		options = append(options, client.NotBefore(read.Due))
	}
	if left := time.Until(read.Expires); !read.Expires.IsZero() {
		options = append(options, client.TTL(max(1, left)))
	}
	if i.ids {
		id := read.ID
		if id == "" {
			id = fmt.Sprint(n)
		}
		options = append(options, client.MsgID("import-"+id))
	}
	return pipe.push(read.Bytes(), options...)
}
