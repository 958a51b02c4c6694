package session

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/cmd/pq/internal/show"
	"github.com/pqbridge/pqbridge/subjects"
)

// Read reads a file.
func (s *Session) Read(file string) ([]byte, error) {
	if file == "-" {
		return io.ReadAll(s.Input())
	}
	return os.ReadFile(file)
}

// HintAtInput prints on a terminal that the command reads lines.
func (s *Session) HintAtInput() {
	if interactive(s.Stdin) {
		s.Say("reading lines from the terminal; Ctrl-D ends them")
	}
}

// ParsePriority reads a priority.
func ParsePriority(s string) (int64, error) {
	priority, err := subjects.ParsePriority(s)
	if err != nil {
		return 0, fmt.Errorf("expected an integer from %d to %d", math.MinInt64, math.MaxInt64)
	}
	return priority, nil
}

var errNoDuration = errors.New("expected a duration such as 30s, 1h30m or 7d")

// ParseDuration reads a duration that is not negative. Unlike time.ParseDuration it accepts
// days, at the beginning: 7d, 1d12h.
func ParseDuration(s string) (time.Duration, error) {
	var total time.Duration
	if days, rest, has := strings.Cut(s, "d"); has {
		n, err := strconv.ParseUint(days, 10, 16)
		if err != nil {
			return 0, errNoDuration
		}
		total, s = time.Duration(n)*show.Day, cmp.Or(rest, "0s")
	}
	d, err := time.ParseDuration(s)
	if err != nil || d < 0 || total+d < total {
		return 0, errNoDuration
	}
	return total + d, nil
}

// Confirm asks before an action that cannot be undone. Without a terminal it requires
// --force.
func (s *Session) Confirm(force bool, format string, args ...any) error {
	if force {
		return nil
	}
	question := fmt.Sprintf(format, args...)
	if !interactive(s.Stdin) {
		return Usagef("%s: nobody is there to ask, expected --force", question)
	}
	fmt.Fprintf(s.Stderr, "%s? [y/N] ", show.Harmless(question))
	answers := bufio.NewScanner(s.Input())
	if answers.Scan() && strings.EqualFold(strings.TrimSpace(answers.Text()), "y") {
		return nil
	}
	if err := answers.Err(); err != nil {
		return err
	}
	return errors.New("nothing was done")
}

func ParseBand(s string) (client.PopOption, error) {
	from, to, ok := strings.Cut(s, "..")
	low, high := int64(math.MinInt64), int64(math.MaxInt64)
	var lowErr, highErr error
	if from != "" {
		low, lowErr = ParsePriority(from)
	}
	if to != "" {
		high, highErr = ParsePriority(to)
	}
	if !ok || s == ".." || lowErr != nil || highErr != nil || low > high {
		return nil, errors.New("expected <low>..<high>, such as 1..5, 1.. or ..5")
	}
	return client.Band(low, high), nil
}

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

// Interrupted returns nil for Ctrl-C, which is how a user ends an endless command.
func Interrupted(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.Is(context.Cause(ctx), context.Canceled) {
		return nil
	}
	return err
}

// Pause is how long a command that looks again and again waits after a look that took so long: at least as
// long, so that it asks for at most half of the time, however slow the answers are.
func Pause(took, interval time.Duration) time.Duration { return max(interval-took, took) }
