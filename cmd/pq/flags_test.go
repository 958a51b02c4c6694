package main

import (
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"github.com/pqbridge/pqbridge/cmd/pq/internal/session"
)

// reading has a value of each kind of flag.
type reading struct {
	Text   string
	Number int
	Yes    bool
	Wait   time.Duration
	Many   []string
}

// read parses a command line with all kinds of flags.
func read(line string, annotations map[string]string) (r reading, args string, err error) {
	root := &cobra.Command{Use: "pq", SilenceErrors: true, SilenceUsage: true}
	c := &cobra.Command{Use: "do", Annotations: annotations, RunE: func(_ *cobra.Command, found []string) error {
		args = strings.Join(found, " ")
		return nil
	}}
	c.Flags().StringVarP(&r.Text, "text", "t", "", "")
	c.Flags().IntVarP(&r.Number, "number", "n", 0, "")
	c.Flags().BoolVarP(&r.Yes, "yes", "y", false, "")
	session.DurationVar(c.Flags(), &r.Wait, "wait", "", "")
	c.Flags().FuncP("many", "m", "", func(s string) error {
		r.Many = append(r.Many, s)
		return nil
	})
	root.AddCommand(c)
	root.SetOut(io.Discard)
	root.SetErr(io.Discard)
	root.SetFlagErrorFunc(flagError)
	root.SetArgs(arranged(root, append([]string{"do"}, strings.Fields(line)...)))
	err = root.Execute()
	return r, args, err
}

func TestFlags(t *testing.T) {
	t.Parallel()
	program := map[string]string{programFollows: "yes"}
	for _, tc := range []struct {
		line        string
		annotations map[string]string
		want        reading
		args        string
	}{
		{"a b", nil, reading{}, "a b"},
		{"-t x a --number=3 b -y", nil, reading{Text: "x", Number: 3, Yes: true}, "a b"},
		{"--text=a=b -n -5 -3 -y=false", nil, reading{Text: "a=b", Number: -5}, "-3"},
		{"-n5 -yn-6 -7 -tx", nil, reading{Number: -6, Yes: true, Text: "x"}, "-7"},
		{"-m 1 -m=2 --many 3 -", nil, reading{Many: []string{"1", "2", "3"}}, "-"},
		{"--wait 1m30s -- -y --text", nil, reading{Wait: 90 * time.Second}, "-y --text"},
		{"--wait 2d", nil, reading{Wait: 48 * time.Hour}, ""},
		{"a -y b -n 3", program, reading{Yes: true}, "a b -n 3"},
		{"a -y -- -n 3", program, reading{Yes: true}, "a -n 3"},
		{"a -n 3 -5 -y", program, reading{Number: 3, Yes: false}, "a -5 -y"},
	} {
		r, args, err := read(tc.line, tc.annotations)
		if err != nil || args != tc.args {
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
		"--txt x":     "unknown flag --txt: perhaps --text",
		"--nothing":   "unknown flag --nothing",
		"-x":          "unknown flag -x",
		"-yx":         "unknown flag -x",
		"--number x":  `flag --number: "x": expected an integer`,
		"-n x":        `flag --number: "x": expected an integer`,
		"--yes=x":     `flag --yes: "x": expected true or false`,
		"--wait 5":    `flag --wait: "5": expected a duration such as 30s, 1h30m or 7d`,
		"--wait -5s":  `flag --wait: "-5s": expected a duration such as 30s, 1h30m or 7d`,
		"--text":      "flag --text: expected a value",
		"--yes a --=": "bad flag syntax: --=",
	} {
		_, _, err := read(line, nil)
		if err == nil || err.Error() != want {
			t.Errorf("%s: %v, expected %s", line, err, want)
		}
		if !errors.As(err, new(*session.UsageError)) {
			t.Errorf("%s: %T, expected a usage error", line, err)
		}
	}
}
