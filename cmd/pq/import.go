package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/pqbridge/pqbridge/client"
)

// importing are the flags of import.
type importing struct {
	file   string
	skip   int
	ids    bool
	strict bool
}

func importCommand() *command {
	i := &importing{ids: true}
	return &command{
		name: "import", args: "<queue>", min: 1, max: 1,
		short: "push what export has written",
		long: `Pushes items from JSON lines: "payload" or "payload_base64", and if there are,
"priority", "headers", and "due" of delayed items. Other fields are not looked
at. The items get new ids; their order stays.

When it fails it says how many lines are done. Run again, it does not push twice
what it has pushed in the last 2 minutes: ids of the export, or the numbers of
the lines, serve as message ids. A queue remembers 1,000,000 of those unless
configured otherwise, so --ids=false is faster beyond that.`,
		examples: []example{
			{"from a file", "pq import jobs --file jobs.jsonl"},
			{"what you wrote yourself", `echo '{"priority": 3, "payload": "hello"}' | pq import jobs`},
		},
		flags: func(f *flags) {
			f.text(&i.file, "file,f", "`file` to read; standard input if not given")
			f.number(&i.skip, "skip", "leave out this `number` of lines at the beginning")
			f.yes(&i.ids, "ids", "with message ids, so that repeating it doubles nothing")
			f.yes(&i.strict, "strict", "wait for each answer: keeps the order also with several bridges, slowly")
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
	c, err := s.connectPatiently()
	if err != nil {
		return err
	}
	pipe := newPipeline(s, c.Queue(args[0]))
	p := s.progress("importing", total, size)
	lines := bufio.NewScanner(io.TeeReader(in, counter(p.add)))
	lines.Buffer(nil, maxLine)
	started, n := time.Now(), 0
	for err == nil && lines.Scan() {
		if len(bytes.TrimSpace(lines.Bytes())) == 0 {
			continue
		}
		if n++; n <= i.skip {
			continue
		}
		if err = i.line(pipe, n, lines.Bytes()); err == nil && i.strict {
			err = pipe.finish()
		}
	}
	// What was sent before a line that cannot be read counts.
	err = errors.Join(err, lines.Err(), pipe.fault())
	p.end()
	took := time.Since(started)
	if err != nil {
		return fmt.Errorf("after %s (go on with --skip %d): %w", many(pipe.done, "line"), pipe.done+int64(i.skip), err)
	}
	return i.summary(s, pipe, took)
}

func (i *importing) summary(s *session, pipe *pipeline, took time.Duration) error {
	if s.global.json {
		return s.printJSON(map[string]int64{"imported": pipe.done - pipe.doubles, "duplicates": pipe.doubles, "disordered": pipe.disorder})
	}
	s.say("imported %s in %s", many(pipe.done-pipe.doubles, "item"), span(took))
	if pipe.doubles > 0 {
		s.say("%s had been imported within the last minutes, and were not again", many(pipe.doubles, "item"))
	}
	if pipe.disorder > 0 {
		s.say("%s came to stand in another order than in the file, because something had to be sent again or several bridges are at work: --strict keeps it", many(pipe.disorder, "item"))
	}
	return nil
}

// open opens what is read, and says how long it is if it can.
func (i *importing) open(s *session) (io.ReadCloser, int64, error) {
	if i.file == "" || i.file == "-" {
		return io.NopCloser(s.stdin), 0, nil
	}
	file, err := os.Open(i.file)
	if err != nil {
		return nil, 0, err
	}
	info, err := file.Stat()
	if err != nil {
		return nil, 0, errors.Join(err, file.Close())
	}
	return file, info.Size(), nil
}

// counter is a writer that counts.
type counter func(n int64)

func (c counter) Write(b []byte) (int, error) {
	c(int64(len(b)))
	return len(b), nil
}

// line pushes a line.
func (i *importing) line(pipe *pipeline, n int, text []byte) error {
	var read struct {
		item
		Priority *int64 `json:"priority"`
	}
	if err := json.Unmarshal(text, &read); err != nil {
		return fmt.Errorf("line %d: expected a JSON object such as %s: %w", n, `{"priority":3,"payload":"hello"}`, err)
	}
	if read.Payload == nil && read.Base64 == nil {
		return fmt.Errorf(`line %d: expected "payload" or "payload_base64"`, n)
	}
	options := []client.PushOption{client.Header(read.Headers), client.WithoutMsgID()}
	if read.Priority != nil {
		options = append(options, client.Priority(*read.Priority))
	}
	if read.State == client.Delayed && time.Now().Before(read.Due) {
		options = append(options, client.NotBefore(read.Due))
	}
	if i.ids {
		id := read.ID
		if id == "" {
			id = fmt.Sprint(n)
		}
		options = append(options, client.MsgID("import-"+id))
	}
	return pipe.push(read.payload(), options...)
}
