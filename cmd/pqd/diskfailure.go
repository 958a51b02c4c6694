package main

import (
	"log/slog"
	"os"
)

// giveUp ends pqd at once, because nothing that the store says can be relied on
// any more: it could not write to its disk.
func giveUp(log *slog.Logger, err error) {
	log.Error("the disk failed or is full: pqd ends at once and answers no more requests; acknowledged items are safe", "error", err)
	os.Exit(1)
}
