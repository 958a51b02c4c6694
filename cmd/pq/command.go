package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pqbridge/pqbridge/subjects"
)

func init() {
	cobra.EnableCommandSorting = false // the help begins with the most used commands
}

// rootCommand builds pq with all its commands.
func rootCommand(s *session) *cobra.Command {
	showVersion := false
	root := &cobra.Command{
		Use:           "pq",
		Long:          helpProgram,
		SilenceErrors: true, // report prints them
		SilenceUsage:  true,
		Args:          cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			switch {
			case showVersion:
				return s.printVersion()
			case len(args) > 0:
				return unknownCommand(c, args[0])
			}
			return s.help(c)
		},
	}
	root.SetIn(s.stdin)
	root.SetOut(s.stdout)
	root.SetErr(s.stderr)
	root.Flags().BoolVar(&showVersion, "version", false, "show the version of pq")
	s.global.define(root.PersistentFlags())
	root.SetFlagErrorFunc(flagError)
	root.SetHelpCommand(helpCommand(s))
	for _, g := range []struct {
		title    string
		commands []*cobra.Command
	}{
		{"Items", []*cobra.Command{
			pushCommand(s), popCommand(s), peekCommand(s), consumeCommand(s),
			ackCommand(s), nackCommand(s), extendCommand(s), terminateCommand(s),
			listCommand(s), getCommand(s), moveCommand(s), rmCommand(s), revokeCommand(s),
		}},
		{"Queues", []*cobra.Command{
			lsCommand(s), infoCommand(s), configCommand(s), pauseCommand(s), resumeCommand(s),
			purgeCommand(s), deleteCommand(s), deadCommand(s), keysCommand(s), keyCommand(s), exportCommand(s), importCommand(s),
		}},
		{"Operation", []*cobra.Command{
			topCommand(s), eventsCommand(s), benchCommand(s), doctorCommand(s), clusterCommand(s), permissionsCommand(s), completionCommand(s), versionCommand(s),
		}},
	} {
		root.AddGroup(&cobra.Group{ID: g.title, Title: g.title + ":"})
		for _, c := range g.commands {
			c.GroupID = g.title
			root.AddCommand(c)
		}
	}
	root.SetHelpCommandGroupID("Operation")
	root.AddCommand(flagsTopic(root.PersistentFlags()))
	s.defineCompletion(root)
	return root
}

// usageError is a mistake in how pq was called.
type usageError struct {
	error
	command *cobra.Command // whose help to point to
}

func usagef(format string, args ...any) error {
	return &usageError{error: fmt.Errorf(format, args...)}
}

func (e *usageError) Unwrap() error { return e.error }

// execute runs the command that the arguments ask for.
func (s *session) execute(args []string) error {
	var err error
	if s.global, err = globalsFrom(s.env); err != nil {
		return err
	}
	root := rootCommand(s)
	if len(args) > 0 && strings.HasPrefix(args[0], cobra.ShellCompRequestCmd) {
		unquoteUsage(root)
	}
	var helpErr error // cobra's functions for help return none
	root.SetHelpFunc(func(c *cobra.Command, _ []string) { helpErr = s.help(c) })
	root.SetArgs(arranged(root, args))
	c, err := root.ExecuteContextC(s.ctx)
	err = errors.Join(err, helpErr)
	if usage := (*usageError)(nil); errors.As(err, &usage) && usage.command == nil {
		usage.command = c
	}
	// The cause of the context's end is clearer than the error that follows from it.
	if cause := context.Cause(s.ctx); err != nil && cause != nil && !errors.Is(cause, context.Canceled) {
		return cause
	}
	return err
}

// commandName is the words of a command after pq.
func commandName(c *cobra.Command) string {
	_, name, _ := strings.Cut(c.CommandPath(), " ")
	return name
}

// anyNumber of arguments.
const anyNumber = -1

// arguments checks the number of arguments and, if the first of them is a queue,
// its name.
func arguments(least, most int) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		_, expected, _ := strings.Cut(c.Use, " ")
		queue := len(args) > 0 && strings.HasPrefix(strings.TrimPrefix(expected, "["), "<queue>")
		switch {
		case len(args) < least:
			return usagef("found %s, expected %s", many(int64(len(args)), "argument"), expected)
		case most == 0 && len(args) > 0:
			return usagef("the argument %q: expected none", args[0])
		case most != anyNumber && len(args) > most:
			return usagef("the argument %q is too much: expected %s", args[most], expected)
		case queue && subjects.CheckQueue(args[0]) != nil:
			return usagef("%w", subjects.CheckQueue(args[0]))
		}
		return nil
	}
}

// unknownCommand names the commands that may have been meant.
func unknownCommand(c *cobra.Command, name string) error {
	c.SuggestionsMinimumDistance = maxTypos
	if near := c.SuggestionsFor(name); name != "" && len(near) > 0 {
		return &usageError{fmt.Errorf("no command %q: perhaps %s", name, alternatives(c.CommandPath()+" ", near)), c}
	}
	return &usageError{fmt.Errorf("no command %q", name), c}
}

// maxTypos is how many letters may differ for a name to be suggested.
const maxTypos = 2

// alternatives joins names, each with a prefix.
func alternatives(prefix string, names []string) string {
	return prefix + strings.Join(names, " or "+prefix)
}
