package commands

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/pqbridge/pqbridge/cmd/pqd/internal/settings"
	"github.com/pqbridge/pqbridge/cmd/pqd/internal/store"
	"github.com/pqbridge/pqbridge/fdbpq/kv/local"
)

// Backup asks the pqd that has the store open for a copy of it. If no process has the store open, Backup copies it
// itself.
func Backup(ctx context.Context, s settings.Settings, to string, stdout io.Writer) error {
	dir, err := store.Dir(s, "FoundationDB has a backup of its own, fdbbackup")
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
		return copyStopped(dir, to, stdout)
	case err != nil:
		return err
	case status != http.StatusOK:
		return fmt.Errorf("no backup was made: %s", answer.Error)
	}
	_, err = fmt.Fprintf(stdout, "the store in %s is copied to %s: %d bytes, in %s\n", dir, answer.To, answer.Bytes, answer.Took.Round(time.Millisecond))
	return err
}

// copyStopped copies a store that no process has open, also a damaged one.
func copyStopped(dir, to string, stdout io.Writer) error {
	if files, err := os.ReadDir(dir); err != nil || len(files) == 0 {
		return errors.Join(fmt.Errorf("there is no store in %s: set PQ_STORE as it is for pqd", dir), err)
	}
	size, err := local.Copy(dir, to)
	if err != nil {
		return fmt.Errorf("no pqd answers in %s: %w", dir, err)
	}
	_, err = fmt.Fprintf(stdout, "the store in %s, which no pqd has open, is copied to %s: %d bytes\n", dir, to, size)
	return err
}

// Restore puts a backup in the place of the store, which no process may have open.
func Restore(s settings.Settings, from string, stdout io.Writer) error {
	if !s.Store.Embedded() {
		return settings.Usagef("PQ_STORE=%s: expected an embedded store, local:<directory>; of several pqd, docs/cluster.md has how one is restored, and FoundationDB has fdbrestore", s.Store)
	}
	dir := s.Store.Place
	replaced, err := local.Restore(from, dir)
	if err != nil {
		return err
	}
	if _, err = fmt.Fprintf(stdout, "the store in %s is that of %s\n", dir, from); err == nil && replaced != "" {
		_, err = fmt.Fprintf(stdout, "what was there is in %s: remove it when you need it no more\n", replaced)
	}
	return err
}

// askRunning sends a request to the pqd that has the store of these settings open, and
// decodes its answer. It returns the status.
func askRunning(ctx context.Context, s settings.Settings, path string, request, answer any) (status int, err error) {
	body, err := json.Marshal(request)
	if err != nil {
		return 0, err
	}
	client := http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", s.Socket())
	}}}
	ask, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://pqd"+path, bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	response, err := client.Do(ask)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED):
		return 0, errNotRunning
	case errors.Is(err, fs.ErrPermission):
		return 0, fmt.Errorf("%w: run this as the user that pqd runs as", err)
	case err != nil:
		return 0, fmt.Errorf("ask pqd: %w", err)
	}
	defer response.Body.Close()
	if err := json.NewDecoder(response.Body).Decode(answer); err != nil {
		return 0, fmt.Errorf("ask pqd: %w", err)
	}
	return response.StatusCode, nil
}

// errNotRunning: no process has the store open.
var errNotRunning = errors.New("no pqd has the store open")
