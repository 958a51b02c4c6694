package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/cmd/pq/internal/session"
	"github.com/pqbridge/pqbridge/cmd/pq/internal/show"
)

// definitions are the commands about what queues have by names: schedules, sources, links.
type definitions struct {
	*session.Session
	noun    string
	example string // a queue and a name
}

// command completes the command that the others stand behind.
func (d definitions) command(c *cobra.Command, behind ...*cobra.Command) *cobra.Command {
	c.Args = cobra.ArbitraryArgs
	c.RunE = func(c *cobra.Command, args []string) error {
		if len(args) > 0 {
			return session.UnknownCommand(c, args[0])
		}
		last := len(behind) - 1
		names := make([]string, last)
		for i := range names {
			names[i] = behind[i].Name()
		}
		return session.Usagef("found no command behind %s: expected %s or %s", d.noun, strings.Join(names, ", "), behind[last].Name())
	}
	c.AddCommand(behind...)
	return c
}

// oneCommand is a command about one of them.
func (d definitions) oneCommand(verb, short, long string, do func(q *client.Queue, name string) error) *cobra.Command {
	return &cobra.Command{
		Use: verb + " <queue> <name>", Args: session.Arguments(2, 2), Short: short, Long: long,
		Example: "  pq " + d.noun + " " + verb + " " + d.example,
		RunE: func(_ *cobra.Command, args []string) error {
			q, err := d.Queue(args[0])
			if err != nil {
				return err
			}
			return do(q, args[1])
		},
	}
}

// eachField reads <field>=<value>.
func eachField(args []string, set func(name, text string) error) error {
	seen := make(map[string]bool)
	for _, arg := range args {
		name, text, ok := strings.Cut(arg, "=")
		if !ok {
			return session.Usagef("%q: expected <field>=<value>", arg)
		}
		if seen[name] {
			return session.Usagef("%s is given twice", name)
		}
		seen[name] = true
		if err := set(name, text); err != nil {
			return err
		}
	}
	return nil
}

// errLine: the line is not one that ls has printed.
var errLine = errors.New("not a line of ls")

// eachLine makes what the lines of a file say. set returns the name of what it has made, "" if it has left it out.
func (d definitions) eachLine(file string, set func(line []byte) (name string, err error)) error {
	text, err := d.Read(file)
	if err != nil {
		return err
	}
	lines := bufio.NewReader(bytes.NewReader(text))
	made := int64(0)
	for number := 1; ; number++ {
		line, end := lines.ReadBytes('\n')
		if line = bytes.TrimSpace(line); len(line) > 0 {
			name, err := set(line)
			switch {
			case err == errLine:
				return fmt.Errorf("line %d of %s is no %s, as \"pq %s ls --json\" prints it: %.100s", number, file, d.noun, d.noun, line)
			case err != nil:
				return fmt.Errorf("%s %s: %w", d.noun, name, err)
			case name != "":
				made++
			}
		}
		if end == io.EOF {
			break
		}
		if end != nil {
			return end
		}
	}
	d.Say("set %s", show.Many(made, d.noun))
	return nil
}
