package main

import (
	"bufio"

	"github.com/pqbridge/pqbridge/client"
)

// maxLine bounds the lines that are read: beyond the largest payload there is, and the
// settings of many keys in the last line of an export.
const maxLine = 64 << 20

// lines pushes each line of standard input.
func (p *pushing) lines(s *session, queue string) error {
	c, err := s.connectPatiently()
	if err != nil {
		return err
	}
	s.hintAtInput()
	pipe := newPipeline(s, c.Queue(queue))
	if s.global.json {
		pipe.each = func(a client.Pushed) error { return s.printJSON(shownPush(queue, a)) }
	}
	bar := s.progress("pushing", 0, thousands)
	pipe.progress = bar.set
	lines := bufio.NewScanner(s.input())
	lines.Buffer(nil, maxLine)
	for lines.Scan() && err == nil {
		err = pipe.push([]byte(lines.Text()), p.options...)
	}
	// An error of push is the pipeline's as well.
	if err = pipe.finish(); err == nil {
		err = lines.Err()
	}
	bar.end()
	s.say("pushed %s", many(pipe.done, "item"))
	return err
}
