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

// WithoutEnded takes a pqd that is said to be active, and that has not answered itself, for silent: while nobody serves requests, it
// has ended, and those that have heard it do not know that yet.
func WithoutEnded(c *protocol.Cluster) *protocol.Cluster {
	if first := &c.Members[0]; first.Role == protocol.RoleActive && first.Heard > 0 {
		first.Role = protocol.RoleSilent
	}
	return c
}

// Unserved says why the pqd of a cluster serve nothing, or "" if one of them is active and most are heard.
func Unserved(c *protocol.Cluster) string {
	switch active := c.Members[0].Role == protocol.RoleActive; {
	case active && MostAreSilent(c):
		return "the active pqd hears too few others: " + Silence(c) + ": " + startThem
	case active:
		return ""
	}
	return idle(c)
}

// idle says why none of the pqd is active: who is missing, and what those that are there object to.
func idle(c *protocol.Cluster) string {
	var reasons []string
	if silence := Silence(c); silence != "" {
		reasons = append(reasons, silence)
	}
	for _, m := range c.Members {
		if m.Reason != "" && m.Role != protocol.RoleSilent {
			reasons = append(reasons, m.Node+" says: "+m.Reason)
		}
	}
	switch {
	case MostAreSilent(c):
		reasons[0] += ": " + startThem
	case len(reasons) == 0:
		reasons = append(reasons, "they wait for each other, which takes some seconds")
	}
	return fmt.Sprintf("none of %d pqd is active: %s", len(c.Members), strings.Join(reasons, "; "))
}

// startThem is what to do about pqd that are away.
const startThem = "start those that are away"

// Filled is how many percent of the log are taken.
func Filled(l protocol.ClusterLog) uint64 {
	if l.MaxBytes == 0 {
		return 0
	}
	return 100 * l.Bytes / l.MaxBytes
}
