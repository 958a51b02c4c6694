package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"time"

	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/subjects"
)

// read reads a file.
func (s *session) read(file string) ([]byte, error) {
	if file == "-" {
		return io.ReadAll(s.input())
	}
	return os.ReadFile(file)
}

// hintAtInput tells somebody who sits before a command that waits for lines.
func (s *session) hintAtInput() {
	if interactive(s.stdin) {
		s.say("reading lines from the terminal; Ctrl-D ends them")
	}
}

// parsePriority reads a priority.
func parsePriority(s string) (int64, error) {
	priority, err := subjects.ParsePriority(s)
	if err != nil {
		return 0, errors.New("expected an integer")
	}
	return priority, nil
}

// parseDuration reads a duration that is not negative.
func parseDuration(s string) (time.Duration, error) {
	d, err := time.ParseDuration(s)
	if err != nil || d < 0 {
		return 0, errors.New("expected a duration such as 30s or 1h30m")
	}
	return d, nil
}

// confirm asks before something that cannot be undone. Without somebody to ask
// it insists on --force.
func (s *session) confirm(force bool, format string, args ...any) error {
	if force {
		return nil
	}
	question := fmt.Sprintf(format, args...)
	if !interactive(s.stdin) {
		return usagef("%s: nobody is there to ask, expected --force", question)
	}
	fmt.Fprintf(s.stderr, "%s? [y/N] ", question)
	answers := bufio.NewScanner(s.input())
	if answers.Scan() && strings.EqualFold(strings.TrimSpace(answers.Text()), "y") {
		return nil
	}
	if err := answers.Err(); err != nil {
		return err
	}
	return errors.New("nothing was done")
}

func parseBand(s string) (client.PopOption, error) {
	from, to, ok := strings.Cut(s, "..")
	low, high := int64(math.MinInt64), int64(math.MaxInt64)
	var lowErr, highErr error
	if from != "" {
		low, lowErr = parsePriority(from)
	}
	if to != "" {
		high, highErr = parsePriority(to)
	}
	if !ok || s == ".." || lowErr != nil || highErr != nil || low > high {
		return nil, errors.New("expected <low>..<high>, such as 1..5, 1.. or ..5")
	}
	return client.Band(low, high), nil
}
