package show

import (
	"fmt"
	"strings"

	"github.com/pqbridge/pqbridge/protocol"
)

// MostAreSilent reports whether fewer pqd are heard than PQ_CLUSTER needs.
func MostAreSilent(c *protocol.Cluster) bool {
	silent := 0
	for _, m := range c.Members {
		if m.Role == protocol.RoleSilent {
			silent++
		}
	}
	return 2*silent >= len(c.Members) && silent > 0
}

// Silence says which pqd were not heard for long, and how many have to be there; "" if all
// that are known were heard.
func Silence(c *protocol.Cluster) string {
	var silent []string
	for _, m := range c.Members {
		if m.Role == protocol.RoleSilent {
			silent = append(silent, fmt.Sprintf("%s was last heard %s ago", m.Node, Span(Seconds(m.Heard))))
		}
	}
	if len(silent) == 0 {
		return ""
	}
	all := len(c.Members)
	return fmt.Sprintf("%s; heard: %d of %d, and with PQ_CLUSTER %d have to be there", strings.Join(silent, ", "), all-len(silent), all, all/2+1)
}

// Filled is how many percent of the log are taken.
func Filled(l protocol.ClusterLog) uint64 {
	if l.MaxBytes == 0 {
		return 0
	}
	return 100 * l.Bytes / l.MaxBytes
}
