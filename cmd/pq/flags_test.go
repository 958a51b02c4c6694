package main

import (
	"errors"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// reading are flags of each kind.
type reading struct {
	Text   string
	Number int
	Yes    bool
	Wait   time.Duration
	Many   []string
}

func (r *reading) flags() *flags {
	f := newFlags()
	f.text(&r.Text, "text,t", "")
	f.number(&r.Number, "number,n", "")
	f.yes(&r.Yes, "yes,y", "")
	f.duration(&r.Wait, "wait", "")
	f.each(func(s string) error {
		r.Many = append(r.Many, s)
		return nil
	}, "many,m", "")
	return f
}

func TestFlags(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		line     string
		verbatim bool
		want     reading
		args     string
	}{
		{"a b", false, reading{}, "a b"},
		{"-t x a --number=3 b -y", false, reading{Text: "x", Number: 3, Yes: true}, "a b"},
		{"--text=a=b -n -5 -3 -y=false", false, reading{Text: "a=b", Number: -5}, "-3"},
		{"-m 1 -m=2 --many 3 -", false, reading{Many: []string{"1", "2", "3"}}, "-"},
		{"--wait 1m30s -- -y --text", false, reading{Wait: 90 * time.Second}, "-y --text"},
		{"a -y b -n 3", true, reading{Yes: true}, "a b -n 3"},
		{"a -y -- -n 3", true, reading{Yes: true}, "a -n 3"},
	} {
		var r reading
		args, err := r.flags().parse(strings.Fields(tc.line), tc.verbatim)
		if err != nil || strings.Join(args, " ") != tc.args {
			t.Errorf("%s: arguments %q, %v, expected %s", tc.line, args, err, tc.args)
		}
		if diff := cmp.Diff(tc.want, r); diff != "" {
			t.Errorf("%s: -want +got\n%s", tc.line, diff)
		}
	}
}

func TestFlagMistakes(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"--txt x":    "unknown flag --txt: perhaps --text",
		"-x":         "unknown flag -x",
		"--number x": `flag --number: "x": expected an integer`,
		"--yes=x":    `flag --yes: "x": expected true or false`,
		"--wait 5":   `flag --wait: "5": expected a duration such as 30s or 1h30m`,
		"--text":     "flag --text: expected a value",
	} {
		_, err := new(reading).flags().parse(strings.Fields(line), false)
		if err == nil || err.Error() != want {
			t.Errorf("%s: %v, expected %s", line, err, want)
		}
		if !errors.As(err, new(*usageError)) {
			t.Errorf("%s: %T, expected a usage error", line, err)
		}
	}
	if _, err := new(reading).flags().parse([]string{"-h"}, false); !errors.Is(err, errHelp) {
		t.Errorf("-h: %v", err)
	}
}

// Every command explains itself, and shows how it is used with flags and words
// that there are.
func TestHelpIsTrue(t *testing.T) {
	t.Parallel()
	names := make(map[string]bool)
	for _, g := range groups() {
		for _, c := range g.commands {
			if names[c.name] {
				t.Errorf("%s is there twice", c.name)
			}
			names[c.name] = true
			if c.short == "" || c.long == "" || c.run == nil {
				t.Errorf("%s: expected it to be explained", c.name)
			}
			for line := range strings.SplitSeq(c.long, "\n") {
				if len(line) > 96 {
					t.Errorf("%s: a line of help has %d characters: %s", c.name, len(line), line)
				}
			}
			for _, e := range c.examples {
				checkExample(t, c, e.line)
			}
		}
	}
}

// checkExample reads the part of an example that is about the command.
func checkExample(t *testing.T, c *command, line string) {
	t.Helper()
	_, rest, found := strings.Cut(line, "pq "+c.name)
	if !found {
		t.Errorf("the example %s is not about %s", line, c.name)
		return
	}
	rest = regexp.MustCompile(`\$\(.*\)`).ReplaceAllString(rest, "X=")
	for _, end := range []string{" | ", " && ", " > ", ")"} {
		rest, _, _ = strings.Cut(rest, end)
	}
	f := newFlags()
	if c.flags != nil {
		// A fresh one: flags that gather keep what they have read.
		again, _ := find(strings.Fields(c.name))
		again.flags(f)
	}
	(&globals{}).define(f)
	args, err := f.parse(words(t, rest), c.verbatim)
	if err == nil && len(args) < c.min && !strings.Contains(line, "xargs") {
		err = c.check(args)
	}
	if err != nil {
		t.Errorf("the example %s: %v", line, err)
	}
}
