package main

import (
	"io"
	"text/tabwriter"

	"github.com/kelseyhightower/envconfig"

	"github.com/pqbridge/pqbridge/cmd/pqd/internal/settings"
)

const usageHead = `pqd answers requests for priority queues on NATS subjects.

usage: pqd [--help] [--version]
       pqd backup <directory>   copies the store, or the node's copy, whether pqd runs or not
       pqd check                checks a store or a node's copy that is not in use for damage
       pqd init                 makes the store of PQ_STORE=jetstream:<name> in a NATS cluster that has none
       pqd probe                asks the pqd that runs with these settings whether it is ready
       pqd recover [--yes] [--from <node>] [--without <node>,…]
                                begins a new log with a node's copy when the log of several pqd has lost entries;
                                without --yes it says what would be lost, and does nothing
       pqd restore <directory>  has a backup take the place of the store of a pqd that does not run
       pqd salvage <directory>  writes the readable items of a damaged store to files for pq import

Settings are environment variables. With none, pqd runs a NATS server of its own
and keeps the queues in ./pq-data.

`

const usageRows = `{{range .}}{{usage_key .}}	{{usage_default .}}	{{usage_description .}}
{{end}}`

func printUsage(w io.Writer) error {
	if _, err := io.WriteString(w, usageHead); err != nil {
		return err
	}
	table := tabwriter.NewWriter(w, 0, 8, 3, ' ', 0)
	if _, err := io.WriteString(table, "VARIABLE\tDEFAULT\tMEANING\n"); err != nil {
		return err
	}
	for _, spec := range []any{&settings.Settings{}, &settings.NATS{}} {
		if err := envconfig.Usagef("", spec, table, usageRows); err != nil {
			return err
		}
	}
	return table.Flush()
}
