package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq"
)

// embeddedStore is the directory of the store that PQ_STORE names.
func embeddedStore(s settings, instead string) (string, error) {
	if s.Store.engine != "local" {
		return "", usagef("PQ_STORE=%s: expected an embedded store, local:<directory>; %s", s.Store, instead)
	}
	return s.Store.place, nil
}

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

// check looks for damage in a store that no process has open, such as a copy.
func check(ctx context.Context, s settings, log *slog.Logger, stdout io.Writer) (err error) {
	dir, err := embeddedStore(s, "one that others use changes while it is looked at")
	if err != nil {
		return err
	}
	// Opening would make a store of what is none.
	if files, err := os.ReadDir(dir); err != nil || len(files) == 0 {
		return errors.Join(fmt.Errorf("PQ_STORE=%s: expected the directory of a store", s.Store), err)
	}
	db, _, err := openStore(ctx, s, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	store, err := fdbpq.Open(ctx, db, storeOptions(s))
	if err != nil {
		return err
	}
	problems, err := store.Check(ctx)
	if err != nil {
		return adviseDamage(err)
	}
	for _, problem := range problems {
		if _, err := fmt.Fprintln(stdout, problem); err != nil {
			return err
		}
	}
	if len(problems) > 0 {
		return fmt.Errorf("the store in %s is damaged, see above", dir)
	}
	_, err = fmt.Fprintf(stdout, "the store in %s has no damage (id %s)\n", dir, store.ID())
	return err
}
