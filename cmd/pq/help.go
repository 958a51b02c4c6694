package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pqbridge/pqbridge/cmd/pq/internal/manual"
	"github.com/pqbridge/pqbridge/cmd/pq/internal/session"
	"github.com/pqbridge/pqbridge/internal/roff"
)

// helpLogin explains how pq finds the server.
const helpLogin = `pq finds the NATS server as the nats command does: by the selected context in
~/.config/nats, by NATS_* variables, by flags. A flag counts more than a variable,
a variable more than the context.`

const helpProgram = `pq: durable priority queues over NATS

` + helpLogin + ` "pq help flags" shows the flags to log in with.

Priorities are integers; low ones come first. Durations look like 30s, 1h30m or 7d.

Exit codes: 0 done; 1 failed; 2 wrong usage; 3 nothing there; 4 no bridge could
do it and nothing was done, so trying again may help; 5 done but for what is said.

"pq doctor" finds out what is wrong. "pq help pages" lists the pages of the
documentation, and "pq help runbook" prints one, without a network.`

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

// pagesTopic lists the pages of the documentation.
func pagesTopic() *cobra.Command {
	return &cobra.Command{
		Use:   "pages",
		Short: "pages of the documentation, which pq help prints",
		Long: "The pages of the documentation: \"pq help <page>\" prints one. Where a command has the\nsame name, add .md: pq help cluster.md\n\n" +
			strings.TrimSuffix(manual.Index(helpColumns), "\n"),
	}
}

// helpColumns are those of the terminal for which pages are set.
const helpColumns = 80

func helpCommand(s *session.Session) *cobra.Command {
	man := false
	c := &cobra.Command{
		Use:   "help [<command>|<page>]",
		Short: "show the help of a command, or a page of the documentation",
		Long: `Shows the help of a command or topic, or a page of the documentation, which pq has
in itself. "pq help pages" lists the pages.`,
		Example: `  # the help of a command of two words
  pq help dead list

  # what to do when something is wrong
  pq help runbook

  # a page that has the name of a command
  pq help push.md`,
		ValidArgsFunction: completeHelp,
		RunE: func(c *cobra.Command, args []string) error {
			if man {
				return s.Print(manPage(c.Root()))
			}
			found, rest, err := c.Root().Find(args)
			if err == nil && len(rest) > 0 {
				if p, is := manual.Find(args[0]); is && len(args) == 1 {
					return s.Print(p.Text(helpColumns))
				}
				err = session.UnknownCommand(found, rest[0])
			}
			if err != nil {
				return err
			}
			if err := printHelp(s, found); err != nil {
				return err
			}
			if p, is := manual.Find(found.Name()); is && len(args) == 1 {
				return s.Print("\nThe page of that name: pq help " + p.Name + ".md\n")
			}
			return nil
		},
	}
	c.Flags().BoolVar(&man, "man", false, "print the help of all commands as a page for man")
	return c
}

func completeHelp(c *cobra.Command, args []string, _ string) (words []string, _ cobra.ShellCompDirective) {
	found, rest, err := c.Root().Find(args)
	if err != nil || len(rest) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	for _, sub := range found.Commands() {
		if sub.IsAvailableCommand() || sub.IsAdditionalHelpTopicCommand() {
			words = append(words, cobra.CompletionWithDesc(sub.Name(), sub.Short))
		}
	}
	if len(args) == 0 {
		for _, readers := range manual.List() {
			for _, p := range readers.Pages {
				words = append(words, cobra.CompletionWithDesc(p.Name+".md", p.What))
			}
		}
	}
	return words, cobra.ShellCompDirectiveNoFileComp
}

// manPage is the help of all commands as a page for man(1), which packages have.
func manPage(root *cobra.Command) string {
	flags := flagsTopic(root.PersistentFlags()).Long
	root.PersistentFlags().VisitAll(func(f *pflag.Flag) { f.Hidden = true }) // once is enough
	var page strings.Builder
	page.WriteString(".TH PQ 1\n.SH NAME\npq \\- durable priority queues over NATS\n.SH SYNOPSIS\n.B pq\n[flags] <command>\n")
	section := func(macro, title, text string) {
		fmt.Fprintf(&page, "%s %s\n.nf\n%s\n.fi\n", macro, roff.Text(title), roff.Text(strings.TrimSpace(text)))
	}
	_, text, _ := strings.Cut(root.Long, "\n")
	section(".SH", "DESCRIPTION", text)
	page.WriteString(".SH COMMANDS\n")
	var write func(c *cobra.Command)
	write = func(c *cobra.Command) {
		for _, sub := range c.Commands() {
			if sub.IsAvailableCommand() && !sub.HasSubCommands() {
				section(".SS", "pq "+session.CommandName(sub), sub.Long+"\n\n"+sub.UsageString())
			}
			write(sub)
		}
	}
	write(root)
	section(".SH", "FLAGS OF ALL COMMANDS", flags)
	page.WriteString(".SH SEE ALSO\n.BR pqd (8);\n\"pq help pages\" lists the pages of the documentation.\n")
	return page.String()
}
