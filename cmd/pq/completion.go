package main

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pqbridge/pqbridge/cmd/pq/internal/figures"
	"github.com/pqbridge/pqbridge/cmd/pq/internal/session"
	"github.com/pqbridge/pqbridge/protocol"
)

func completionCommand(s *session.Session) *cobra.Command {
	shells := []string{"bash", "zsh", "fish"}
	return &cobra.Command{
		Use: "completion bash|zsh|fish", Args: session.Arguments(1, 1),
		Short: "print a script for shell completion",
		Long: `Prints a script that lets a shell complete commands, flags and the names of
queues. The one for bash needs the package bash-completion.`,
		Example: `  # bash: in ~/.bashrc
  source <(pq completion bash)

  # zsh: in ~/.zshrc, after compinit
  source <(pq completion zsh)

  # fish
  pq completion fish > ~/.config/fish/completions/pq.fish`,
		ValidArgs: shells,
		RunE: func(c *cobra.Command, args []string) error {
			switch args[0] {
			case "bash":
				return c.Root().GenBashCompletionV2(s.Stdout, true)
			case "zsh":
				return c.Root().GenZshCompletion(s.Stdout)
			case "fish":
				return c.Root().GenFishCompletion(s.Stdout, true)
			}
			return session.Usagef("the shell %q: expected bash, zsh or fish", args[0])
		},
	}
}

// completing is a function that cobra asks for completions.
func completing(s *session.Session,
	complete func(*session.Session, *cobra.Command, []string, string) ([]string, cobra.ShellCompDirective)) cobra.CompletionFunc {
	return func(c *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
		return complete(s, c, args, word)
	}
}

// defineCompletion sets the completion of arguments and flags. By default a command
// completes the name of its queue.
func defineCompletion(s *session.Session, c *cobra.Command) {
	c.Flags().VisitAll(func(f *pflag.Flag) { defineFlagCompletion(s, c, f) })
	c.PersistentFlags().VisitAll(func(f *pflag.Flag) { defineFlagCompletion(s, c, f) })
	if c.ValidArgsFunction == nil && c.ValidArgs == nil {
		c.ValidArgsFunction = completing(s, completeQueue)
	}
	for _, sub := range c.Commands() {
		defineCompletion(s, sub)
	}
}

// defineFlagCompletion goes by what help shows for the value.
func defineFlagCompletion(s *session.Session, c *cobra.Command, f *pflag.Flag) {
	complete := cobra.NoFileCompletions
	switch value, _ := pflag.UnquoteUsage(f); {
	case value == "file":
		return // the shell's own completion
	case value == "state":
		complete = fixed("ready", "leased", "delayed")
	case value == "types":
		complete = fixed(eventTypes...)
	case value == "column":
		complete = fixed(slices.Sorted(maps.Keys(figures.Orders))...)
	case f.Name == "context":
		complete = func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return contextNames(s), cobra.ShellCompDirectiveNoFileComp
		}
	}
	if err := c.RegisterFlagCompletionFunc(f.Name, complete); err != nil {
		panic(err) // a flag that is not there, or is defined twice
	}
}

// unquoteUsage takes the back quotes out of the texts about flags, which shells
// show as they are.
func unquoteUsage(c *cobra.Command) {
	unquote := func(f *pflag.Flag) { _, f.Usage = pflag.UnquoteUsage(f) }
	c.PersistentFlags().VisitAll(unquote)
	c.Flags().VisitAll(unquote)
	for _, sub := range c.Commands() {
		unquoteUsage(sub)
	}
}

func fixed(words ...string) cobra.CompletionFunc {
	return cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp)
}

func completeQueue(s *session.Session, c *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 || !strings.Contains(c.Use, "<queue>") {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return beginning(queueNames(s), word), cobra.ShellCompDirectiveNoFileComp
}

// contextNames are the contexts of the nats command.
func contextNames(s *session.Session) (names []string) {
	entries, err := os.ReadDir(filepath.Join(s.ConfigDir(), "context"))
	if err != nil {
		return nil // there are none
	}
	for _, entry := range entries {
		if name, is := strings.CutSuffix(entry.Name(), ".json"); is {
			names = append(names, name)
		}
	}
	return names
}

// completeConfig completes the fields of a configuration, or the values of the
// one that is being set.
func completeConfig(s *session.Session, c *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
	if len(args) == 0 {
		return completeQueue(s, c, args, word)
	}
	var words []string
	set, _, setting := strings.Cut(word, "=")
	for _, field := range protocol.ConfigFields {
		if !setting {
			words = append(words, field.Name+"=")
		} else if field.Name == set {
			for _, value := range field.Words {
				words = append(words, set+"="+value)
			}
		}
	}
	directive := cobra.ShellCompDirectiveNoFileComp
	if !setting {
		directive |= cobra.ShellCompDirectiveNoSpace
	}
	return beginning(words, word), directive
}

func beginning(all []string, word string) []string {
	return slices.DeleteFunc(all, func(s string) bool { return !strings.HasPrefix(s, word) })
}

// completionTimeout bounds how long a user who presses the tab key waits.
const completionTimeout = time.Second

func queueNames(s *session.Session) (names []string) {
	s.Global.Timeout = completionTimeout
	c, err := s.Connect()
	if err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(s.Context, completionTimeout)
	defer cancel()
	for name, err := range c.Queues(ctx) {
		if err != nil {
			break
		}
		names = append(names, name)
	}
	return names
}
