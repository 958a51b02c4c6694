package session

import (
	"bufio"
	"cmp"
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
