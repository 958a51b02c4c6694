package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

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

func importCommand() *command {
	i := &importing{verify: true, ids: true}
	return &command{
		name: "import", args: "<queue>", min: 1, max: 1,
		short: "put back what export has written",
		long: `Puts items where they stood when "pq export" wrote them: with their ids, their
order, headers, deliveries, time stamps, delays and times to live, in this or
another store. Leased ones become ready. What is there already is not doubled,
so an import that was interrupted can be run again.

The queue is paused meanwhile, unless --live is given: an item that is taken
before the end would come back if the import had to be run again. It stays
paused when that fails, and when it was paused before; --resume lets it go in
the end in any case. A queue that does not exist is made with the configuration it had.

The last line of the export tells whether all of it is there and unchanged. A
file is checked before anything is imported; --verify=false takes what was
changed on purpose.

Lines without "id", which you may write yourself, are pushed as new items:
"payload" or "payload_base64", and if there are, "priority" and "headers". So
are all lines with --as-new. Run again within 2 minutes, it does not push them
twice: the numbers of lines, or the ids, serve as message ids. A queue remembers
1,000,000 of those unless configured otherwise, and --ids=false does without.`,
		examples: []example{
			{"from a file", "pq import jobs --file jobs.jsonl"},
			{"once more, beside what is there", "pq import jobs --as-new --file jobs.jsonl"},
			{"what you wrote yourself", `echo '{"priority": 3, "payload": "hello"}' | pq import jobs`},
		},
		flags: func(f *flags) {
			f.text(&i.file, "file,f", "`file` to read; standard input if not given")
			f.number(&i.skip, "skip", "leave out this `number` of lines at the beginning")
			f.yes(&i.asNew, "as-new", "push the items as new ones, with ids and places of their own")
			f.yes(&i.live, "live", "do not pause the queue meanwhile")
			f.yes(&i.verify, "verify", "insist on an export that is whole and unchanged")
			f.yes(&i.ids, "ids", "push with message ids, so that repeating it doubles nothing")
			f.yes(&i.resume, "resume", "let the queue go in the end, also when it was paused before")
			f.yes(&i.strict, "strict", "wait for each answer: keeps the order of pushes also with several bridges, slowly")
		},
		run: i.run,
	}
}

func (i *importing) run(s *session, args []string) error {
	in, total, err := i.open(s)
	if err != nil {
		return err
	}
	defer in.Close()
	j := &restore{importing: i, session: s, sum: newSum()}
	if file, is := in.(*os.File); is && total > 0 {
		if j.seal, err = i.look(s, file, total); err != nil {
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
func (i *importing) look(s *session, file *os.File, total int64) (*protocol.ExportSeal, error) {
	p := s.progress("checking", total, size)
	defer p.end()
	all, exported := newSum(), false
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
	return all.seal, err
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
