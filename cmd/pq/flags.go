package main

import (
	"errors"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pqbridge/pqbridge/cmd/pq/internal/session"
)

// flagError adds to an error what the flag expected.
func flagError(c *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	var missing *pflag.ValueRequiredError
	var invalid *pflag.InvalidValueError
	switch {
	case errors.As(err, &unknown) && unknown.GetSpecifiedShortnames() != "":
		return session.Usagef("unknown flag -%s", unknown.GetSpecifiedName())
	case errors.As(err, &unknown):
		name := unknown.GetSpecifiedName()
		if near := nearFlags(c, name); len(near) > 0 {
			return session.Usagef("unknown flag --%s: perhaps %s", name, session.Alternatives("--", near))
		}
		return session.Usagef("unknown flag --%s", name)
	case errors.As(err, &missing):
		return session.Usagef("flag --%s: expected a value", missing.GetFlag().Name)
	case errors.As(err, &invalid):
		reason := errors.Unwrap(invalid).Error()
		switch invalid.GetFlag().Value.Type() {
		case "int":
			reason = "expected an integer"
		case "bool":
			reason = "expected true or false"
		}
		return session.Usagef("flag --%s: %q: %s", invalid.GetFlag().Name, invalid.GetValue(), reason)
	}
	return session.Usagef("%w", err)
}

// nearFlags are flags with similar names. cobra only suggests commands, so nearFlags makes a
// command of each flag.
func nearFlags(c *cobra.Command, name string) []string {
	flags := &cobra.Command{SuggestionsMinimumDistance: session.MaxTypos}
	c.Flags().VisitAll(func(f *pflag.Flag) {
		flags.AddCommand(&cobra.Command{Use: f.Name, Run: func(*cobra.Command, []string) {}})
	})
	near := flags.SuggestionsFor(name)
	slices.Sort(near)
	return near
}

// negative is a number and no flag.
var negative = regexp.MustCompile(`^-[0-9]+$`)

// programFollows marks a command whose second argument is a program: what follows
// that is the program's.
const programFollows = "program follows"

// arranged puts the flags of a command line in front and its arguments behind "--".
// Otherwise pflag would read a negative number as a flag, and the flags of a program as
// pq's.
func arranged(root *cobra.Command, args []string) []string {
	c, rest, err := root.Find(args)
	if err != nil || c == root || c.HasSubCommands() {
		return args
	}
	c.InheritedFlags() // makes them known to c.Flags()
	flags, arguments := strings.Fields(session.CommandName(c)), []string{"--"}
	for len(rest) > 0 {
		arg, n := rest[0], 1
		switch {
		case arg == "--":
			return slices.Concat(flags, arguments, rest[1:])
		case len(arg) > 1 && arg[0] == '-' && !negative.MatchString(arg):
			if takesNext(c.Flags(), arg) {
				n = 2
			}
			if n > len(rest) {
				return args // pflag reports what is missing
			}
			flags = append(flags, rest[:n]...)
		case len(arguments) == 2 && c.Annotations[programFollows] != "":
			return slices.Concat(flags, arguments, rest)
		default:
			arguments = append(arguments, arg)
		}
		rest = rest[n:]
	}
	return slices.Concat(flags, arguments)
}

// takesNext reports whether the next word is the value of a flag, or of the last one of
// several short flags.
func takesNext(f *pflag.FlagSet, arg string) bool {
	if strings.Contains(arg, "=") {
		return false
	}
	if name, long := strings.CutPrefix(arg, "--"); long {
		found := f.Lookup(name)
		return found != nil && found.NoOptDefVal == ""
	}
	for i := 1; i < len(arg); i++ {
		found := f.ShorthandLookup(arg[i : i+1])
		if found == nil || found.NoOptDefVal == "" {
			return found != nil && i == len(arg)-1
		}
	}
	return false
}
