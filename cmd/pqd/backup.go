package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"time"

	"github.com/pqbridge/pqbridge/cmd/pqd/internal/settings"
)

// backup asks the pqd that has the store open for a copy of it.
func backup(ctx context.Context, s settings.Settings, to string, stdout io.Writer) error {
	dir, err := storeDir(s, "FoundationDB has a backup of its own, fdbbackup")
	if err != nil {
		return err
	}
	if to, err = filepath.Abs(to); err != nil {
		return err
	}
	var answer backupAnswer
	status, err := askRunning(ctx, s, "/backup", backupRequest{To: to}, &answer)
	switch {
	case errors.Is(err, errNotRunning):
		return fmt.Errorf("no pqd has the store in %s open: while it is stopped, copy the directory; otherwise set PQ_STORE as it is for pqd", dir)
	case err != nil:
		return err
	case status != http.StatusOK:
		return fmt.Errorf("no backup was made: %s", answer.Error)
	}
	_, err = fmt.Fprintf(stdout, "the store in %s is copied to %s: %d bytes, in %s\n", dir, answer.To, answer.Bytes, answer.Took.Round(time.Millisecond))
	return err
}
