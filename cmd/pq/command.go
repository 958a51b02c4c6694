package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/pqbridge/pqbridge/subjects"
)

// command is something that pq does.
type command struct {
	name     string // one word, or two
	args     string // what follows the name, as usage shows it
	short    string // in a line
	long     string
	examples []example
	flags    func(*flags)
	min, max int  // arguments; max < 0: any number
	verbatim bool // what follows the first argument is not ours to read
	run      func(s *session, args []string) error
}

// example is a command line that help shows, with what it does.
type example struct{ does, line string }

// any number of arguments.
const anyNumber = -1

// group is a heading of the help.
type group struct {
	title    string
	commands []*command
}

// groups are all commands.
func groups() []group {
	return []group{
		{"Items", []*command{
			pushCommand(), popCommand(), peekCommand(), consumeCommand(),
			ackCommand(), nackCommand(), extendCommand(), terminateCommand(),
			listCommand(), getCommand(), moveCommand(), rmCommand(),
		}},
		{"Queues", []*command{
			lsCommand(), infoCommand(), configCommand(), pauseCommand(), resumeCommand(),
			purgeCommand(), deleteCommand(), deadListCommand(), deadRequeueCommand(),
			exportCommand(), importCommand(),
		}},
		{"Operation", []*command{
			topCommand(), benchCommand(), doctorCommand(), permissionsCommand(), completionCommand(), versionCommand(),
		}},
	}
}

// find returns the command that the arguments begin with, and the rest.
func find(args []string) (*command, []string) {
	for words := min(2, len(args)); words > 0; words-- {
		name := strings.Join(args[:words], " ")
		for _, g := range groups() {
			for _, c := range g.commands {
				if c.name == name {
					return c, args[words:]
				}
			}
		}
	}
	return nil, nil
}

// usageError is a mistake in how pq was called.
type usageError struct {
	error
	command *command // whose usage to point to; nil: the program's
}

func usagef(format string, args ...any) error {
	return &usageError{error: fmt.Errorf(format, args...)}
}

func (e *usageError) Unwrap() error { return e.error }

// dispatch runs the command that the arguments ask for.
func (s *session) dispatch(args []string) error {
	var err error
	if s.global, err = globalsFrom(s.env); err != nil {
		return err
	}
	if len(args) > 0 && args[0] == completeCommand {
		return s.complete(args[1:])
	}
	before := newFlags()
	s.global.define(before)
	args, err = before.leading(args)
	switch {
	case errors.Is(err, errHelp), err == nil && len(args) == 0, err == nil && args[0] == "help" && len(args) == 1:
		return s.help()
	case err != nil:
		return err
	case args[0] == "help" && args[1] == helpFlags:
		return s.helpOnFlags()
	case args[0] == "help":
		args = append(args[1:], "--help")
	}
	c, rest := find(args)
	if c == nil {
		return unknownCommand(args)
	}
	return s.runCommand(c, rest)
}

func (s *session) runCommand(c *command, args []string) error {
	f := newFlags()
	if c.flags != nil {
		c.flags(f)
	}
	f.own()
	s.global.define(f)
	args, err := f.parse(args, c.verbatim)
	if errors.Is(err, errHelp) {
		return s.helpOn(c)
	}
	if err == nil {
		err = c.check(args)
	}
	if err == nil {
		err = c.run(s, args)
	}
	if usage := (*usageError)(nil); errors.As(err, &usage) && usage.command == nil {
		usage.command = c
	}
	// What made going on pointless says more than that the context has ended.
	if cause := context.Cause(s.ctx); err != nil && cause != nil && !errors.Is(cause, context.Canceled) {
		return cause
	}
	return err
}

// check finds what is wrong with the arguments of any command.
func (c *command) check(args []string) error {
	queue := len(args) > 0 && strings.HasPrefix(strings.TrimPrefix(c.args, "["), "<queue>")
	switch {
	case len(args) < c.min:
		return usagef("found %s, expected %s", many(int64(len(args)), "argument"), c.args)
	case c.max >= 0 && len(args) > c.max && c.args == "":
		return usagef("the argument %q: expected none", args[0])
	case c.max >= 0 && len(args) > c.max:
		return usagef("the argument %q is too much: expected %s", args[c.max], c.args)
	case queue && subjects.CheckQueue(args[0]) != nil:
		return usagef("%w", subjects.CheckQueue(args[0]))
	}
	return nil
}

// unknownCommand names what may have been meant.
func unknownCommand(args []string) error {
	var near []string
	for _, g := range groups() {
		for _, c := range g.commands {
			first, _, _ := strings.Cut(c.name, " ")
			if strings.HasPrefix(c.name, args[0]) || strings.HasPrefix(args[0], first) || distance(first, args[0]) <= 2 {
				near = append(near, "pq "+c.name)
			}
		}
	}
	if len(near) > 0 {
		return usagef("no command %q: perhaps %s", args[0], strings.Join(near, " or "))
	}
	return usagef("no command %q", args[0])
}

// distance is how many letters to change, add or drop to make one word of the
// other.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		corner := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			corner, row[j+1] = row[j+1], min(row[j+1]+1, row[j]+1, corner+cost)
		}
	}
	return row[len(b)]
}
