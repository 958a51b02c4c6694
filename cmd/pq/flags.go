package main

import (
	"errors"
	"flag"
	"io"
	"regexp"
	"slices"
	"strings"
	"time"
)

// flags are a command's flags. They are read as the nats command reads its own:
// -x and --long, before, between and behind the arguments.
type flags struct {
	set   *flag.FlagSet
	short map[string]string // by the long name
	mine  []string          // long names of the command's own flags
}

func newFlags() *flags {
	set := flag.NewFlagSet("pq", flag.ContinueOnError)
	set.SetOutput(io.Discard)
	return &flags{set: set, short: make(map[string]string)}
}

// own notes that the flags so far are the command's, and what follows is
// everybody's.
func (f *flags) own() {
	f.set.VisitAll(func(fl *flag.Flag) {
		if len(fl.Name) > 1 {
			f.mine = append(f.mine, fl.Name)
		}
	})
}

// names splits "long,l".
func (f *flags) names(names string) string {
	long, short, _ := strings.Cut(names, ",")
	if short != "" {
		f.short[long] = short
	}
	return long
}

func (f *flags) alias(long string) {
	if short := f.short[long]; short != "" {
		f.set.Var(f.set.Lookup(long).Value, short, "")
	}
}

// The kinds of flags. names is "long" or "long,l"; what usage has in back
// quotes stands for the value.

func (f *flags) text(p *string, names, usage string) {
	long := f.names(names)
	f.set.StringVar(p, long, *p, usage)
	f.alias(long)
}

func (f *flags) number(p *int, names, usage string) {
	long := f.names(names)
	f.set.IntVar(p, long, *p, usage)
	f.alias(long)
}

func (f *flags) yes(p *bool, names, usage string) {
	long := f.names(names)
	f.set.BoolVar(p, long, *p, usage)
	f.alias(long)
}

func (f *flags) duration(p *time.Duration, names, usage string) {
	long := f.names(names)
	f.set.DurationVar(p, long, *p, usage)
	f.alias(long)
}

func (f *flags) value(v flag.Value, names, usage string) {
	long := f.names(names)
	f.set.Var(v, long, usage)
	f.alias(long)
}

// each calls set for each time the flag is given.
func (f *flags) each(set func(string) error, names, usage string) {
	long := f.names(names)
	f.set.Var(repeated(set), long, usage)
	f.alias(long)
}

type repeated func(string) error

func (r repeated) String() string     { return "" }
func (r repeated) Set(s string) error { return r(s) }

// errHelp says that help was asked for.
var errHelp = errors.New("help was asked for")

// negative is a number and no flag.
var negative = regexp.MustCompile(`^-[0-9]+$`)

// leading reads the flags in front of the first argument and returns what is
// left.
func (f *flags) leading(args []string) ([]string, error) {
	for len(args) > 0 && isFlag(args[0]) {
		var err error
		if args, err = f.one(args); err != nil {
			return nil, err
		}
	}
	return args, nil
}

// parse reads all flags and returns the arguments. What follows the first of
// them is left as it stands if verbatim says so, flags before the second aside;
// what follows -- is in any case.
func (f *flags) parse(args []string, verbatim bool) ([]string, error) {
	var rest []string
	for len(args) > 0 {
		switch {
		case args[0] == "--":
			return append(rest, args[1:]...), nil
		case isFlag(args[0]):
			var err error
			if args, err = f.one(args); err != nil {
				return nil, err
			}
		case verbatim && len(rest) > 0:
			return append(rest, args...), nil
		default:
			rest = append(rest, args[0])
			args = args[1:]
		}
	}
	return rest, nil
}

func isFlag(arg string) bool {
	return len(arg) > 1 && arg[0] == '-' && !negative.MatchString(arg) && arg != "--"
}

// one reads one flag, with its value, and returns what follows.
func (f *flags) one(args []string) ([]string, error) {
	name, value, given := strings.Cut(strings.TrimLeft(args[0], "-"), "=")
	args = args[1:]
	if name == "help" || name == "h" {
		return nil, errHelp
	}
	fl := f.set.Lookup(name)
	if fl == nil {
		return nil, usagef("unknown flag %s%s%s", dashes(name), name, f.near(name))
	}
	if b, is := fl.Value.(interface{ IsBoolFlag() bool }); is && b.IsBoolFlag() {
		if !given {
			value = "true"
		}
	} else if !given {
		if len(args) == 0 {
			return nil, usagef("flag %s%s: expected a value", dashes(name), name)
		}
		value, args = args[0], args[1:]
	}
	if err := f.set.Set(name, value); err != nil {
		return nil, usagef("flag %s%s: %q: %s", dashes(name), name, value, expected(fl.Value, err))
	}
	return args, nil
}

func dashes(name string) string {
	if len(name) == 1 {
		return "-"
	}
	return "--"
}

// near names flags that may have been meant.
func (f *flags) near(name string) string {
	var names []string
	f.set.VisitAll(func(fl *flag.Flag) {
		if len(fl.Name) > 1 && (strings.HasPrefix(fl.Name, name) || distance(fl.Name, name) <= 2) {
			names = append(names, "--"+fl.Name)
		}
	})
	if len(names) == 0 || len(name) < 2 {
		return ""
	}
	slices.Sort(names)
	return ": perhaps " + strings.Join(names, " or ")
}

// expected says in a user's words what was wrong with a value.
func expected(v flag.Value, err error) string {
	if getter, is := v.(flag.Getter); is {
		switch getter.Get().(type) {
		case int:
			return "expected an integer"
		case bool:
			return "expected true or false"
		case time.Duration:
			return "expected a duration such as 30s or 1h30m"
		}
	}
	return err.Error()
}
