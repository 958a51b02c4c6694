package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/protocol"
)

// restore is one run of import.
type restore struct {
	*importing
	session *session
	queue   *client.Queue
	pipe    *pipeline
	sum     *checksum
	trailer *protocol.ExportTrailer // known beforehand, of a file
	placed  int64                   // items sent to their places
	made    bool                    // the queue was not there
	paused  bool                    // by this import
	was     bool                    // paused before
}

// imported is a line of an import.
type imported struct {
	item
	Priority *int64 `json:"priority"`
}

func readImported(text []byte) (read imported, err error) {
	if err := json.Unmarshal(text, &read); err != nil {
		return read, fmt.Errorf("expected a JSON object such as %s: %w", `{"priority":3,"payload":"hello"}`, err)
	}
	if read.Payload == nil && read.Base64 == nil {
		return read, errors.New(`expected "payload" or "payload_base64"`)
	}
	return read, nil
}

// lines imports all lines.
func (r *restore) lines(in io.Reader) (err error) {
	lines, n := lineScanner(in), 0
	for err == nil && lines.Scan() {
		var item bool
		if item, err = r.sum.line(lines.Bytes()); err != nil || !item {
			continue
		}
		if n++; n <= r.skip {
			continue
		}
		if err = r.line(n, lines.Bytes()); err == nil && r.strict {
			err = r.pipe.finish()
		}
	}
	// What was sent before a line that cannot be read counts.
	return errors.Join(err, lines.Err(), r.pipe.laterError())
}

func (r *restore) line(n int, text []byte) error {
	read, err := readImported(text)
	if err != nil {
		return fmt.Errorf("line %d: %w", n, err)
	}
	if read.ID == "" || r.asNew {
		return r.pushLine(r.pipe, n, &read)
	}
	if read.Priority == nil {
		return fmt.Errorf(`line %d: expected "priority" beside "id"`, n)
	}
	if r.placed == 0 {
		if err := r.pauseQueue(); err != nil {
			return err
		}
	}
	r.placed++
	i := &client.Import{
		ID: read.ID, Priority: *read.Priority, Payload: read.Bytes(), Header: read.Headers, Pushed: read.Pushed,
		Expires: read.Expires, Deliveries: int(read.Deliveries), Fence: read.Fence, Dead: read.Dead,
	}
	if read.State == client.Delayed {
		i.NotBefore = read.Due
	}
	return r.pipe.place(i)
}

// pauseQueue keeps others from popping until all items are there.
func (r *restore) pauseQueue() error {
	if r.live {
		return nil
	}
	ctx := r.session.ctx
	info, err := r.queue.Info(ctx)
	if errors.Is(err, client.ErrNotFound) {
		r.made = true
		info, err = &client.Info{}, r.configure(r.trailer)
	}
	if err == nil && info.Paused {
		r.was = true
		return nil
	}
	if err == nil {
		err = r.queue.Pause(ctx)
	}
	if err != nil {
		return fmt.Errorf("pause the queue (--live does without): %w", err)
	}
	r.paused = true
	return nil
}

// configure makes the queue, as it was if that is known.
func (r *restore) configure(from *protocol.ExportTrailer) error {
	var change client.ConfigChange
	if from != nil && from.Config != nil {
		text, err := json.Marshal(from.Config)
		if err == nil {
			err = json.Unmarshal(text, &change)
		}
		if err != nil {
			return err
		}
	}
	_, err := r.queue.Configure(r.session.ctx, change)
	return err
}

// stopped ends an import that failed. The queue stays paused if some of it is
// there.
func (r *restore) stopped(err error) error {
	switch {
	case r.paused && r.pipe.done == 0:
		return errors.Join(err, r.queue.Resume(context.WithoutCancel(r.session.ctx)))
	case r.paused || r.was:
		r.session.unfinished = fmt.Sprintf(`The queue %s is paused: run the import again with --resume, or let it go with "pq resume %s".`, r.queue.Name(), r.queue.Name())
	}
	return err
}

// finish checks that all is there and lets the queue go.
func (r *restore) finish() error {
	if r.placed > 0 && r.verify {
		if err := r.sum.check(); err != nil {
			return r.stopped(fmt.Errorf("imported %s, but %w (--verify=false does not look)", many(r.pipe.done, "item"), err))
		}
	}
	if r.made && r.trailer == nil && r.sum.trailer != nil {
		if err := r.configure(r.sum.trailer); err != nil {
			return err
		}
	}
	if r.paused || r.was && r.resume {
		return r.queue.Resume(r.session.ctx)
	}
	return nil
}

func (r *restore) summary(took time.Duration) error {
	s, pipe := r.session, r.pipe
	if r.sum.items == 0 && r.sum.trailer == nil {
		s.say("found nothing to import")
		return exitError(exitNothing)
	}
	verified := r.placed > 0 && r.verify
	if s.global.json {
		return s.printJSON(map[string]any{
			"imported": pipe.done - pipe.doubles, "duplicates": pipe.doubles, "disordered": pipe.disorder, "verified": verified,
		})
	}
	s.say("imported %s in %s", many(pipe.done-pipe.doubles, "item"), span(took))
	switch {
	case pipe.doubles > 0 && r.placed > 0:
		s.say("%s stood there already", many(pipe.doubles, "item"))
	case pipe.doubles > 0:
		s.say("%s had been imported within the last minutes, and were not again", many(pipe.doubles, "item"))
	}
	if pipe.disorder > 0 {
		s.say("%s came to stand in another order than in the file, because something had to be sent again or several bridges are at work: --strict keeps it", many(pipe.disorder, "item"))
	}
	if verified {
		s.say("all %s of the export are there, unchanged", many(r.sum.items, "item"))
	}
	if r.was && !r.resume {
		s.say(`the queue was paused before, and stays so: "pq resume %s" lets it go`, r.queue.Name())
	}
	return nil
}
