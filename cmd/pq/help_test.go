package main

import (
	"errors"
	"io"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/pqbridge/pqbridge/cmd/pq/internal/session"
	"github.com/pqbridge/pqbridge/testenv"
)

type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }

// An error in writing the help ends the command with that error.
func TestHelpThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	for _, line := range []string{"", "help", "--help", "pop -h", "help dead list", "help flags", "completion zsh", "--version"} {
		var stderr strings.Builder
		code := run(t.Context(), strings.Fields(line), nil, strings.NewReader(""), brokenPipe{}, &stderr)
		if code != session.ExitFailed || stderr.String() != "pq: broken pipe\n" {
			t.Errorf("pq %s: exit code %d: %s", line, code, &stderr)
		}
	}
}

// Defaults that come from the environment may be secrets.
func TestHelpShowsNoSecrets(t *testing.T) {
	t.Parallel()
	env := []string{"NATS_URL=nats://a:secret@b", "NATS_USER=secret", "NATS_PASSWORD=secret", "NATS_TOKEN=secret"}
	for _, line := range []string{"help flags", "help", "pop -h"} {
		var stdout strings.Builder
		if code := run(t.Context(), strings.Fields(line), env, strings.NewReader(""), &stdout, io.Discard); code != 0 || strings.Contains(stdout.String(), "secret") {
			t.Errorf("pq %s: exit code %d: %s", line, code, &stdout)
		}
	}
}

// leaves calls fn for all commands without subcommands.
func leaves(c *cobra.Command, fn func(*cobra.Command)) {
	for _, sub := range c.Commands() {
		leaves(sub, fn)
	}
	if !c.HasSubCommands() && !c.IsAdditionalHelpTopicCommand() {
		fn(c)
	}
}

// Every command has a description and examples, whose flags and arguments exist.
func TestHelpMatchesTheCommands(t *testing.T) {
	t.Parallel()
	s := session.New(t.Context(), nil, strings.NewReader(""), io.Discard, io.Discard)
	leaves(rootCommand(s), func(c *cobra.Command) {
		name := session.CommandName(c)
		if c.Short == "" || c.Long == "" || c.Example == "" || c.RunE == nil {
			t.Errorf("%s: expected it to be explained", name)
		}
		for line := range strings.SplitSeq(c.Long, "\n") {
			if len(line) > 96 {
				t.Errorf("%s: a line of help has %d characters: %s", name, len(line), line)
			}
		}
		for line := range strings.SplitSeq(c.Example, "\n") {
			if line != "" && !strings.HasPrefix(line, "  # ") {
				checkExample(t, name, line)
			}
		}
	})
}

// checkExample parses the part of an example that calls the command.
func checkExample(t *testing.T, name, line string) {
	t.Helper()
	_, rest, found := strings.Cut(line, "pq "+name)
	if !found {
		t.Errorf("the example %s is not about %s", line, name)
		return
	}
	rest = regexp.MustCompile(`\$\(.*\)`).ReplaceAllString(rest, "X=")
	for _, end := range []string{" | ", " && ", " > ", ")"} {
		rest, _, _ = strings.Cut(rest, end)
	}
	if strings.Contains(line, "xargs") {
		rest += " X" // what xargs adds
	}
	// A new command each time: flags that collect values keep them.
	s := session.New(t.Context(), nil, strings.NewReader(""), io.Discard, io.Discard)
	root := rootCommand(s)
	leaves(root, func(c *cobra.Command) { c.RunE = func(*cobra.Command, []string) error { return nil } })
	root.SetArgs(arranged(root, append(strings.Fields(name), testenv.Words(rest)...)))
	if err := root.Execute(); err != nil {
		t.Errorf("the example %s: %v", line, err)
	}
}
