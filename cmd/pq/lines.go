package main

import (
	"bufio"

	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/cmd/pq/internal/session"
	"github.com/pqbridge/pqbridge/cmd/pq/internal/show"
)

// maxLine bounds the lines that are read: beyond the largest payload there is, and the
// settings of many keys in the last line of an export.
const maxLine = 64 << 20

// lines pushes each line of standard input.
func (p *pushing) lines(s *session.Session, queue string) error {
	c, err := s.ConnectPatiently()
	if err != nil {
		return err
	}
	s.HintAtInput()
	pipe := newPipeline(s, c.Queue(queue))
	if s.Global.JSON {
		pipe.each = func(a client.Pushed) error { return s.PrintJSON(show.ShownPush(queue, a)) }
	}
	bar := s.Progress("pushing", 0, show.Thousands)
	pipe.progress = bar.Set
	lines := bufio.NewScanner(s.Input())
	lines.Buffer(nil, maxLine)
	for lines.Scan() && err == nil {
		err = pipe.push([]byte(lines.Text()), p.options...)
	}
	// An error of push is the pipeline's as well.
	if err = pipe.finish(); err == nil {
		err = lines.Err()
	}
	bar.End()
	s.Say("pushed %s", show.Many(pipe.done, "item"))
	return err
}
