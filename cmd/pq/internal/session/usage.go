package session

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pqbridge/pqbridge/cmd/pq/internal/show"
	"github.com/pqbridge/pqbridge/subjects"
)

// UsageError is a mistake in how pq was called.
type UsageError struct {
	error
	Command *cobra.Command // whose help to point to
}

func Usagef(format string, args ...any) error {
	return &UsageError{error: fmt.Errorf(format, args...)}
}

func (e *UsageError) Unwrap() error { return e.error }

// CommandName is the words of a command after pq.
func CommandName(c *cobra.Command) string {
	_, name, _ := strings.Cut(c.CommandPath(), " ")
	return name
}

// AnyNumber of arguments.
const AnyNumber = -1

// Arguments checks the number of arguments and, if the first of them is a queue,
// its name.
func Arguments(least, most int) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		_, expected, _ := strings.Cut(c.Use, " ")
		queue := len(args) > 0 && strings.HasPrefix(strings.TrimPrefix(expected, "["), "<queue>")
		switch {
		case len(args) < least:
			return Usagef("found %s, expected %s", show.Many(int64(len(args)), "argument"), expected)
		case most == 0 && len(args) > 0:
			return Usagef("the argument %q: expected none", args[0])
		case most != AnyNumber && len(args) > most:
			return Usagef("the argument %q is too much: expected %s", args[most], expected)
		case queue && subjects.CheckQueue(args[0]) != nil:
			return Usagef("%w", subjects.CheckQueue(args[0]))
		}
		return nil
	}
}

// UnknownCommand names the commands that may have been meant.
func UnknownCommand(c *cobra.Command, name string) error {
	c.SuggestionsMinimumDistance = MaxTypos
	if near := c.SuggestionsFor(name); name != "" && len(near) > 0 {
		return &UsageError{fmt.Errorf("no command %q: perhaps %s", name, Alternatives(c.CommandPath()+" ", near)), c}
	}
	return &UsageError{fmt.Errorf("no command %q", name), c}
}

// MaxTypos is how many letters may differ for a name to be suggested.
const MaxTypos = 2

// Alternatives joins names, each with a prefix.
func Alternatives(prefix string, names []string) string {
	return prefix + strings.Join(names, " or "+prefix)
}
