package main

import (
	"context"
	"errors"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"

	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/cmd/pq/internal/doctor"
	"github.com/pqbridge/pqbridge/cmd/pq/internal/session"
	"github.com/pqbridge/pqbridge/cmd/pq/internal/top"
)

func init() {
	cobra.EnableCommandSorting = false // the help begins with the most used commands
}

// rootCommand builds pq with all its commands.
func rootCommand(s *session.Session) *cobra.Command {
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
				return printVersion(s)
			case len(args) > 0:
				return session.UnknownCommand(c, args[0])
			}
			return printHelp(s, c)
		},
	}
	root.SetIn(s.Stdin)
	root.SetOut(s.Stdout)
	root.SetErr(s.Stderr)
	root.Flags().BoolVar(&showVersion, "version", false, "show the version of pq")
	s.Global.Define(root.PersistentFlags())
	root.SetFlagErrorFunc(flagError)
	root.SetHelpCommand(helpCommand(s))
	for _, g := range []struct {
		title    string
		commands []*cobra.Command
	}{
		{"Items", []*cobra.Command{
			pushCommand(s), popCommand(s), peekCommand(s), consumeCommand(s),
			ackCommand(s), nackCommand(s), backCommand(s), extendCommand(s), terminateCommand(s),
			listCommand(s), getCommand(s), resultCommand(s), moveCommand(s), rmCommand(s), revokeCommand(s),
		}},
		{"Queues", []*cobra.Command{
			lsCommand(s), infoCommand(s), explainCommand(s), configCommand(s), pauseCommand(s), resumeCommand(s),
			purgeCommand(s), deleteCommand(s), deadCommand(s), keysCommand(s), keyCommand(s),
			scheduleCommand(s), sourceCommand(s), linkCommand(s), exportCommand(s), importCommand(s),
		}},
		{"Operation", []*cobra.Command{
			top.Command(s), eventsCommand(s), benchCommand(s), doctor.Command(s, version()),
			clusterCommand(s), permissionsCommand(s), completionCommand(s), versionCommand(s),
		}},
	} {
		root.AddGroup(&cobra.Group{ID: g.title, Title: g.title + ":"})
		for _, c := range g.commands {
			c.GroupID = g.title
			root.AddCommand(c)
		}
	}
	root.SetHelpCommandGroupID("Operation")
	root.AddCommand(flagsTopic(root.PersistentFlags()), pagesTopic())
	defineCompletion(s, root)
	return root
}

// command runs the command that the arguments ask for.
func command(s *session.Session, args []string) error {
	var err error
	if s.Global, err = session.GlobalsFrom(s.Env); err != nil {
		return err
	}
	root := rootCommand(s)
	if len(args) > 0 && strings.HasPrefix(args[0], cobra.ShellCompRequestCmd) {
		unquoteUsage(root)
	}
	var helpErr error // cobra's functions for help return none
	root.SetHelpFunc(func(c *cobra.Command, _ []string) { helpErr = printHelp(s, c) })
	root.SetArgs(arranged(root, args))
	c, err := root.ExecuteContextC(s.Context)
	err = errors.Join(err, helpErr)
	if usage := (*session.UsageError)(nil); errors.As(err, &usage) && usage.Command == nil {
		usage.Command = c
	}
	// It comes from the client and from the connection, whichever is first. The hint says what to do.
	if refused := (*client.Error)(nil); errors.Is(err, nats.ErrPermissionViolation) && errors.As(err, &refused) {
		err = refused.Unwrap()
	}
	// The cause of the context's end is clearer than the error that follows from it.
	if cause := context.Cause(s.Context); err != nil && cause != nil && !errors.Is(cause, context.Canceled) {
		return cause
	}
	return err
}
