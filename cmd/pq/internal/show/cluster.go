package show

import (
	"github.com/pqbridge/pqbridge/protocol"
)

// Filled is how many percent of the log are taken.
func Filled(l protocol.ClusterLog) uint64 {
	if l.MaxBytes == 0 {
		return 0
	}
	return 100 * l.Bytes / l.MaxBytes
}
