package main

import (
	"context"
	"io"
)

// input is standard input as commands read it: Ctrl-C ends a read that waits for
// somebody to type, with the context's error.
func (s *session) input() io.Reader {
	if s.reading == nil {
		s.reading = readUntil(s.ctx, s.stdin)
	}
	return s.reading
}

// readUntil reads what r has until ctx ends. A read of r that is under way then
// cannot be called off: what it returns is lost, and its goroutine ends with it.
func readUntil(ctx context.Context, r io.Reader) io.Reader {
	out, in := io.Pipe()
	context.AfterFunc(ctx, func() { in.CloseWithError(ctx.Err()) })
	go func() {
		_, err := io.Copy(in, r)
		in.CloseWithError(err) // nil: the end of r
	}()
	return out
}
