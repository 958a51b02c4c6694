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

	"github.com/pqbridge/pqbridge/protocol"
)

// sealMark is what the last line of an export begins with.
var sealMark = []byte(protocol.ExportMark)

// sum adds up lines, as a seal does.
type sum struct {
	hash  hash.Hash
	items int64
	seal  *protocol.ExportSeal // the line that was one; nothing may follow
}

func newSum() *sum { return &sum{hash: sha256.New()} }

// line adds one, without its line feed, and says whether it is an item's. Empty
// lines are nothing.
func (s *sum) line(text []byte) (item bool, err error) {
	switch {
	case len(bytes.TrimSpace(text)) == 0:
		return false, nil
	case s.seal != nil:
		return false, fmt.Errorf("there is more behind the last line of an export: expected one export at a time")
	case bytes.HasPrefix(text, sealMark):
		var last protocol.ExportEnd
		if err := json.Unmarshal(text, &last); err != nil {
			return false, fmt.Errorf("the last line of the export: %w", err)
		}
		s.seal = last.Export
		return false, nil
	}
	s.hash.Write(text)
	s.hash.Write([]byte{'\n'})
	s.items++
	return true, nil
}

func (s *sum) text() string { return hex.EncodeToString(s.hash.Sum(nil)) }

// check says in what the lines are not what was exported.
func (s *sum) check() error {
	switch {
	case s.seal == nil:
		return fmt.Errorf("the last line of an export is missing, so some items may be")
	case s.seal.Items != s.items:
		return fmt.Errorf("%s were exported, found %s", many(s.seal.Items, "item"), thousands(s.items))
	case s.seal.SHA256 != s.text():
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
