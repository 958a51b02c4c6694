package main

import (
	"flag"
	"fmt"
	"strings"
	"text/tabwriter"
)

const helpHead = `pq: durable priority queues over NATS

usage: pq [flags] <command> [arguments] [flags]
`

// helpWay says how the server is found.
const helpWay = `
pq finds the NATS server as the nats command does: by the selected context in
~/.config/nats, by NATS_* variables, by flags; later ones count more.
`

const helpTail = helpWay + `
Priorities are integers; low ones come first from the end called min.

Exit codes: 0 done, 1 failed, 2 called wrongly, 3 nothing there, 4 nothing was
done because no bridge could do it: trying again may help.

"pq help <command>" has examples. "pq doctor" says what is wrong.
`

// help explains the program.
func (s *session) help() error {
	var b strings.Builder
	b.WriteString(helpHead)
	for _, g := range groups() {
		fmt.Fprintf(&b, "\n%s\n", g.title)
		table := tabwriter.NewWriter(&b, 0, 8, 2, ' ', 0)
		for _, c := range g.commands {
			fmt.Fprintf(table, "  %s\t%s\n", c.name, c.short)
		}
		if err := table.Flush(); err != nil {
			return err
		}
	}
	b.WriteString("\nFlags of all commands (\"pq help flags\" has more, to log in with)\n")
	f := newFlags()
	s.global.define(f)
	f.describe(&b, []string{"server", "context", "prefix", "timeout", "json"})
	b.WriteString(helpTail)
	return s.print(b.String())
}

// helpFlags is the word after help that explains the flags of all commands.
const helpFlags = "flags"

// helpOnFlags explains the flags that all commands have.
func (s *session) helpOnFlags() error {
	var b strings.Builder
	b.WriteString("Flags of all commands, and the variables that say the same\n")
	f := newFlags()
	s.global.define(f)
	f.describe(&b, nil)
	b.WriteString(helpWay)
	return s.print(b.String())
}

// helpOn explains a command.
func (s *session) helpOn(c *command) error {
	var b strings.Builder
	fmt.Fprintf(&b, "usage: pq %s %s [flags]\n\n%s\n", c.name, c.args, strings.TrimSpace(c.long))
	f := newFlags()
	if c.flags != nil {
		c.flags(f)
	}
	f.own()
	if len(f.mine) > 0 {
		b.WriteString("\nFlags (\"pq help flags\" has those of all commands)\n")
		f.describe(&b, f.mine)
	}
	if len(c.examples) > 0 {
		b.WriteString("\nExamples\n")
	}
	for i, e := range c.examples {
		if i > 0 {
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, "  # %s\n  %s\n", e.does, e.line)
	}
	return s.print(strings.Replace(b.String(), "  [flags]", " [flags]", 1))
}

// describe writes a table of flags; nil stands for all.
func (f *flags) describe(b *strings.Builder, names []string) {
	if names == nil {
		f.own()
		names = f.mine
	}
	table := tabwriter.NewWriter(b, 0, 8, 2, ' ', 0)
	for _, name := range names {
		fl := f.set.Lookup(name)
		value, usage := flag.UnquoteUsage(fl)
		if value != "" {
			value = " " + value
		}
		short := "   "
		if s := f.short[name]; s != "" {
			short = "-" + s + ","
		}
		if fl.DefValue != "" && fl.DefValue != "false" && fl.DefValue != "0" && fl.DefValue != "0s" {
			usage += " (" + fl.DefValue + ")"
		}
		fmt.Fprintf(table, "  %s --%s%s\t%s\n", short, name, value, usage)
	}
	_ = table.Flush() // a strings.Builder takes everything
}
