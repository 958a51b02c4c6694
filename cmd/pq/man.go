package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pqbridge/pqbridge/cmd/pq/internal/session"
	"github.com/pqbridge/pqbridge/internal/roff"
)

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
