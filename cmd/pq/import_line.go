package main

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"time"

	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/cmd/pq/internal/show"
	"github.com/pqbridge/pqbridge/internal/jsontext"
	"github.com/pqbridge/pqbridge/protocol"
)

// imported is a line of an import.
type imported struct {
	show.Item
	Priority *int64 `json:"priority"`
}

func readImported(text []byte) (read imported, err error) {
	if err := json.Unmarshal(text, &read); err != nil {
		return read, fmt.Errorf("expected a JSON object such as %s: %w", `{"priority":3,"payload":"hello"}`, jsontext.Wrong(err))
	}
	if err := jsontext.Check(text); err != nil {
		return read, err
	}
	if read.Payload == nil && read.Base64 == nil {
		return read, errors.New(`expected "payload" or "payload_base64"`)
	}
	return read, nil
}

// lines imports all lines.
func (r *importRun) lines(in io.Reader) (err error) {
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
	// Items that were sent before an unreadable line count.
	return errors.Join(err, lines.Err(), r.pipe.laterError())
}

func (r *importRun) line(n int, text []byte) error {
	read, err := readImported(text)
	if err != nil {
		return fmt.Errorf("line %d: %w", n, err)
	}
	if read.ID == "" || r.asNew {
		return r.pushLine(r.pipe, r.sum.text(), &read)
	}
	if read.Priority == nil {
		return fmt.Errorf(`line %d: expected "priority" beside "id"`, n)
	}
	if r.placed == 0 {
		if err := r.openQueue(); err != nil {
			return err
		}
	}
	r.placed++
	i := show.Import(&read.Item.Item)
	i.Priority, i.Payload, i.Header = *read.Priority, read.Bytes(), read.AllHeaders()
	switch read.State {
	case client.Delayed:
		i.NotBefore = read.Due
	case client.Leased:
		if i.Deliveries > int(i.Failures+i.Interruptions+i.Returns) {
			i.Interruptions++ // its holder has not said how it ended
		}
	}
	return r.pipe.place(i, "")
}

// pushLine pushes a line as a new item. sum is that of all lines up to this one: it tells the lines
// of one file from each other, and from those of another file.
func (i *importFlags) pushLine(pipe *pipeline, sum string, read *imported) error {
	options := []client.PushOption{client.Header(read.AllHeaders()), client.Header(show.PushHeaders(&read.Item.Item)), client.WithoutMsgID()}
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
			id = sum
		}
		options = append(options, client.MsgID("import-"+id))
	}
	return pipe.push(read.Bytes(), options...)
}

// trailerStart is what the last line of an export begins with.
var trailerStart = []byte(protocol.ExportMark)

// checksum adds up the lines of an export.
type checksum struct {
	hash    hash.Hash
	items   int64
	trailer *trailer // if it was read; nothing may follow
}

// trailer is what the last line of an export says. An older export does not have all fields
// of a configuration, and those are unknown: they are not zero.
type trailer struct {
	protocol.ExportTrailer
	Config *client.ConfigChange `json:"config"` // instead of the one that is complete
}

func newChecksum() *checksum { return &checksum{hash: sha256.New()} }

// line adds a line, without its line feed, and returns whether it is an item.
// Empty lines do not count.
func (s *checksum) line(text []byte) (item bool, err error) {
	switch {
	case len(bytes.TrimSpace(text)) == 0:
		return false, nil
	case s.trailer != nil:
		return false, fmt.Errorf("found lines behind the last line of an export: expected one export")
	case bytes.HasPrefix(text, trailerStart):
		var last struct {
			Export *trailer `json:"export"`
		}
		if err := json.Unmarshal(text, &last); err != nil {
			return false, fmt.Errorf("the last line of the export: %w", err)
		}
		s.trailer = last.Export
		return false, nil
	}
	s.hash.Write(text)
	s.hash.Write([]byte{'\n'})
	s.items++
	return true, nil
}

func (s *checksum) text() string { return hex.EncodeToString(s.hash.Sum(nil)) }

// check compares what was read with the trailer.
func (s *checksum) check() error {
	switch {
	case s.trailer == nil:
		return fmt.Errorf("the last line of an export is missing, so items may be missing too")
	case s.trailer.Items != s.items:
		return fmt.Errorf("%s were exported, found %s", show.Many(s.trailer.Items, "item"), show.Thousands(s.items))
	case s.trailer.SHA256 != s.text():
		return fmt.Errorf("the items are not as they were exported: the SHA-256 sum differs")
	}
	return nil
}

// lineScanner reads lines up to the longest that an item can make.
func lineScanner(r io.Reader) *bufio.Scanner {
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 1<<16), maxLine)
	return lines
}
