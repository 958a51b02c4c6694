package settings

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
)

// doors are values of PQ_UNPROTECTED.
type doors []string

const (
	DoorNATS = "nats" // the embedded NATS server
	doorHTTP = "http" // the HTTP interface and the console
	DoorLog  = "log"  // the log of PQ_STORE=jetstream:<name>, to clients of its NATS servers
)

func (d *doors) Decode(value string) error {
	for name := range strings.SplitSeq(value, ",") {
		name = strings.TrimSpace(name)
		if !slices.Contains([]string{DoorNATS, doorHTTP, DoorLog}, name) {
			return fmt.Errorf("found %q: expected nats, http or log, separated by commas", name)
		}
		*d = append(*d, name)
	}
	return nil
}

// Accepts reports whether the operator has named an open door.
func (d doors) Accepts(door string) bool { return slices.Contains(d, door) }

// Warn logs the open doors at each start.
func (d doors) Warn(log *slog.Logger) {
	for _, door := range d {
		log.Warn("PQ_UNPROTECTED: "+map[string]string{
			DoorNATS: "other machines need no login to use the embedded NATS server, and all queues",
			doorHTTP: "other machines need no token to use the HTTP interface and the console",
			DoorLog:  "NATS clients may be able to read and purge the log of the store, which has all items",
		}[door], "door", door)
	}
}
