package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
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

// The words of other programs lead to a command.
func TestOtherWordsForCommands(t *testing.T) {
	t.Parallel()
	for word, want := range map[string]string{
		"status": "pq ls or pq doctor", "health": "pq doctor", "jobs": "pq list", "failed": "pq dead", "retry": "pq dead", "requeue": "pq dead", "queues": "pq ls",
		"pusch": "pq push",
	} {
		if _, text := pq(t, nil, word); !strings.Contains(text, fmt.Sprintf("no command %q: perhaps %s\n", word, want)) {
			t.Errorf("%s, expected a hint at %s", text, want)
		}
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

// What pages say to type exists: each command of pq in their text has its flags, and one in a block that no test runs has its
// arguments, too. In the text … and <queue> stand for something, and arguments may be missing.
func TestPagesMatchTheCommands(t *testing.T) {
	t.Parallel()
	inText, inBlock := regexp.MustCompile("`pq( [^`]*)`"), regexp.MustCompile(`^(?:[A-Z_]+=\S+ )*pq( .*)$`)
	found := 0
	for _, pattern := range []string{"../../*.md", "../../docs/*.md", "../../docs/*/*.md", "../../clients/*/*.md", "../../examples/*.md"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			page, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			fence, number := "", 0
			for line := range strings.Lines(string(page)) {
				number++
				line = strings.TrimSpace(line)
				if language, is := strings.CutPrefix(line, "```"); is {
					if fence != "" {
						language = ""
					}
					fence = language
					continue
				}
				where := fmt.Sprintf("%s:%d", file, number)
				switch match := inBlock.FindStringSubmatch(line); {
				case fence == "sh" && match != nil:
					found++
					checkTyped(t, where, match[1], true)
				case fence == "":
					for _, match := range inText.FindAllStringSubmatch(line, -1) {
						if found++; !strings.HasPrefix(match[1], " help ") { // it has pages, too
							checkTyped(t, where, match[1], false)
						}
					}
				}
			}
		}
	}
	if found < 50 {
		t.Errorf("the pages have %d commands of pq", found)
	}
}

// checkTyped parses a command of a page.
func checkTyped(t *testing.T, where, line string, whole bool) {
	t.Helper()
	line, _, _ = strings.Cut(line, " | ")
	line, _, _ = strings.Cut(line, " #")
	words := testenv.Words(strings.NewReplacer("…", " ", "<", "", ">", "").Replace(line))
	s := session.New(t.Context(), nil, strings.NewReader(""), io.Discard, io.Discard)
	root := rootCommand(s)
	run := false
	leaves(root, func(c *cobra.Command) {
		c.RunE = func(*cobra.Command, []string) error {
			run = true
			return nil
		}
		if !whole {
			c.Args = cobra.ArbitraryArgs
		}
	})
	root.SetArgs(arranged(root, words))
	unfinished := regexp.MustCompile(`expected a value|found no command behind`) // in the text a command may be named alone
	if err := root.Execute(); err != nil && (whole || !unfinished.MatchString(err.Error())) {
		t.Errorf("%s: pq%s: %v", where, line, err)
	} else if whole && !run {
		t.Errorf("%s: pq%s: there is no such command", where, line)
	}
}

// The page for man has each command once, and the flags of all commands once; no line of a text is taken for a macro.
func TestManPage(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	if code := run(t.Context(), []string{"help", "--man"}, nil, strings.NewReader(""), &out, io.Discard); code != 0 {
		t.Fatalf("exit code %d", code)
	}
	page := out.String()
	leaves(rootCommand(session.New(t.Context(), nil, strings.NewReader(""), io.Discard, io.Discard)), func(c *cobra.Command) {
		if heading := "\n.SS pq " + strings.ReplaceAll(session.CommandName(c), "-", `\-`) + "\n"; strings.Count(page, heading) != 1 {
			t.Errorf("expected once: %s", heading)
		}
	})
	if n := strings.Count(page, "NATS_PASSWORD"); n != 1 {
		t.Errorf("NATS_PASSWORD is there %d times", n)
	}
	for line := range strings.Lines(page) {
		if macro, _, _ := strings.Cut(strings.TrimSpace(line), " "); strings.HasPrefix(line, "'") || strings.HasPrefix(line, ".") && !strings.Contains(".TH .SH .SS .B .BR .nf .fi", macro) {
			t.Errorf("man takes this for a macro: %s", line)
		}
	}
}
