package session

import (
	"context"
	"io"
)

// Input is standard input. Ctrl-C ends a read that waits for typed input, with the context's
// error.
func (s *Session) Input() io.Reader {
	if s.reading == nil {
		s.reading = readUntil(s.Context, s.Stdin)
	}
	return s.reading
}

// readUntil reads r until ctx ends. A read of r that has begun cannot be cancelled: its
// result is lost, and its goroutine ends with it.
func readUntil(ctx context.Context, r io.Reader) io.Reader {
	out, in := io.Pipe()
	context.AfterFunc(ctx, func() { in.CloseWithError(ctx.Err()) })
	go func() {
		_, err := io.Copy(in, r)
		in.CloseWithError(err) // nil: the end of r
	}()
	return out
}
