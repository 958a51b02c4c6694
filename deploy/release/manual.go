package main

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/pqbridge/pqbridge/internal/roff"
)

// setting is a line of the table in the help of pqd.
var setting = regexp.MustCompile(`^([A-Z][A-Z_0-9]+)  +(?:(\S+)  +)?(\S.*)$`)

// daemonManual is the help of pqd as a page for man: its table as a list.
func daemonManual(help []byte) []byte {
	before, table, _ := strings.Cut(string(help), "\nVARIABLE ")
	var page strings.Builder
	fmt.Fprintf(&page, ".TH PQD 8\n.nh\n.ad l\n.SH NAME\npqd \\- priority queues for NATS clients\n.SH DESCRIPTION\n.nf\n%s\n.fi\n.SH ENVIRONMENT\n", roff.Text(strings.TrimSpace(before)))
	for line := range strings.Lines(table) {
		if match := setting.FindStringSubmatch(strings.TrimSuffix(line, "\n")); match != nil {
			fmt.Fprintf(&page, ".TP\n.B %s\n%s", match[1], roff.Text(match[3]))
			if match[2] != "" {
				fmt.Fprintf(&page, " (default: %s)", roff.Text(match[2]))
			}
			page.WriteByte('\n')
		}
	}
	page.WriteString(".SH FILES\n.TP\n.B /etc/pqd.env\nsettings of the service, one VARIABLE=value a line\n.TP\n.B /var/lib/pqd\nits store\n.TP\n.B " + documentsDir +
		"\nthe documentation, and configurations, alerts and a dashboard to copy\n.SH SEE ALSO\n.BR pq (1);\n\"pq help operations\" and \"pq help runbook\" print these pages\n")
	return []byte(page.String())
}
