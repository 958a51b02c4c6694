package store

import (
	"log/slog"
	"os"
)

// GiveUp ends pqd at once after a failed write to the disk: the store's answers may be
// wrong from then on.
func GiveUp(log *slog.Logger, err error) {
	log.Error("the disk failed or is full: pqd ends at once and answers no more requests; acknowledged items are safe", "error", err)
	os.Exit(1)
}
