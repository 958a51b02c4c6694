package main

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash"
	"io"

	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/cmd/pq/internal/show"
	"github.com/pqbridge/pqbridge/protocol"
)

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
