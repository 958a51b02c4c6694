package main

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
	"path/filepath"
	"syscall"
	"time"
)

// backup asks the pqd that has the store open for a copy of it.
func backup(ctx context.Context, s settings, to string, stdout io.Writer) error {
	dir, err := embeddedStore(s, "FoundationDB has a backup of its own, fdbbackup")
	if err != nil {
		return err
	}
	if to, err = filepath.Abs(to); err != nil {
		return err
	}
	body, err := json.Marshal(backupRequest{To: to})
	if err != nil {
		return err
	}
	ask := http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", filepath.Join(dir, socketName))
	}}}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://pqd/backup", bytes.NewReader(body))
	if err != nil {
		return err
	}
	response, err := ask.Do(request)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("no pqd has the store in %s open: while it is stopped, copy the directory; otherwise set PQ_STORE as it is for pqd", dir)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%w: run this as the user that pqd runs as", err)
	case err != nil:
		return fmt.Errorf("ask pqd for a backup: %w", err)
	}
	defer response.Body.Close()
	var answer backupAnswer
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		return fmt.Errorf("ask pqd for a backup: %w", err)
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("pqd: %s", answer.Error)
	}
	_, err = fmt.Fprintf(stdout, "the store in %s is copied to %s: %d bytes, in %s\n", dir, answer.To, answer.Bytes, answer.Took.Round(time.Millisecond))
	return err
}
