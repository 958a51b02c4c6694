package main

import (
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pqbridge/pqbridge/cmd/pq/internal/session"
)

// helpLogin explains how pq finds the server.
const helpLogin = `pq finds the NATS server as the nats command does: by the selected context in
~/.config/nats, by NATS_* variables, by flags. A flag counts more than a variable,
a variable more than the context.`

const helpProgram = `pq: durable priority queues over NATS

` + helpLogin + ` "pq help flags" shows the flags to log in with.

Priorities are integers; low ones come first. Durations look like 30s, 1h30m or 7d.

Exit codes: 0 done; 1 failed; 2 wrong usage; 3 nothing there; 4 no bridge could
do it and nothing was done, so trying again may help.

"pq doctor" finds out what is wrong.`

// commonFlags are the flags of all commands that every help shows.
var commonFlags = map[string]bool{"server": true, "context": true, "prefix": true, "timeout": true, "json": true}

// printHelp prints the help of a command. It leaves the flags to log in with to a topic
// of their own, see flagsTopic.
func printHelp(s *session.Session, c *cobra.Command) error {
	c.Root().PersistentFlags().VisitAll(func(f *pflag.Flag) { f.Hidden = !commonFlags[f.Name] })
	text := c.Long + "\n"
	if c.Runnable() {
		text += "\n" + c.UsageString()
	}
	return s.Print(text)
}

// flagsTopic is a topic of the help, and no command.
func flagsTopic(f *pflag.FlagSet) *cobra.Command {
	return &cobra.Command{
		Use:   "flags",
		Short: "flags of all commands, and the variables that set the same",
		Long:  "Flags of all commands, and the variables that set the same:\n\n" + f.FlagUsages() + "\n" + helpLogin,
	}
}

func helpCommand(s *session.Session) *cobra.Command {
	return &cobra.Command{
		Use:     "help [<command>]",
		Short:   "show the help of a command",
		Long:    `Shows the help of a command or topic.`,
		Example: "  # the help of a command of two words\n  pq help dead list",
		ValidArgsFunction: func(c *cobra.Command, args []string, _ string) (words []string, _ cobra.ShellCompDirective) {
			if found, rest, err := c.Root().Find(args); err == nil && len(rest) == 0 {
				for _, sub := range found.Commands() {
					if sub.IsAvailableCommand() || sub.IsAdditionalHelpTopicCommand() {
						words = append(words, cobra.CompletionWithDesc(sub.Name(), sub.Short))
					}
				}
			}
			return words, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(c *cobra.Command, args []string) error {
			found, rest, err := c.Root().Find(args)
			if err == nil && len(rest) > 0 {
				err = session.UnknownCommand(found, rest[0])
			}
			if err != nil {
				return err
			}
			return printHelp(s, found)
		},
	}
}
