package commands

import (
	"bytes"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pqbridge/pqbridge/cmd/pqd/internal/settings"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv/local"
)

// A backup is made once at a time, to an absolute path, by the pqd that has the store
// open. Each refusal says why.
func TestBackups(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	db, err := local.Open(dir, local.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	leaveSocket(t, filepath.Join(dir, settings.SocketName))
	c := StartControl(filepath.Join(dir, settings.SocketName), db, nil, slog.New(slog.DiscardHandler))
	if c.server == nil {
		t.Fatal("no socket where a killed process has left one")
	}
	back := func(to string) (said string, err error) {
		var out bytes.Buffer
		err = Backup(t.Context(), settings.Settings{Store: settings.StoreName{Engine: "local", Place: dir}}, to, &out)
		return out.String(), err
	}
	refused := func(to, why string) {
		t.Helper()
		if said, err := back(to); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("a backup: %q, %v; expected %q", said, err, why)
		}
	}

	to := filepath.Join(t.TempDir(), "copy")
	said, err := back(to)
	if err != nil {
		t.Fatal(err)
	}
	size, err := sizeOf(to)
	if err != nil || size == 0 || !strings.Contains(said, fmt.Sprintf("copied to %s: %d bytes,", to, size)) {
		t.Errorf("said %q of %d bytes, %v", said, size, err)
	}
	refused(to, "no backup was made: "+to+" exists")

	c.busy.Lock()
	refused(to+"2", "another backup is under way")
	c.busy.Unlock()
	for _, body := range []string{"", "{}", `{"to":"elsewhere"}`} {
		w := httptest.NewRecorder()
		c.backup(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/backup", strings.NewReader(body)))
		if w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), "absolute path") {
			t.Errorf("%s: %d %s", body, w.Code, w.Body)
		}
	}
	if err := c.Stop(); err != nil {
		t.Fatal(err)
	}
	refused(to+"2", "in use by another process")
	leaveSocket(t, filepath.Join(dir, settings.SocketName))
	refused(to+"2", "in use by another process")
}

// Without a pqd a backup is a copy of the store, check finds no fault with it, and changes none of its files; restore has it take the
// place of what came later, which stays beside it.
func TestBackupAndRestoreWithoutPqd(t *testing.T) {
	t.Parallel()
	work := t.TempDir()
	at := func(name string) settings.Settings {
		return settings.Settings{Store: settings.StoreName{Engine: "local", Place: filepath.Join(work, name)}}
	}
	change := func(name string) (id string) {
		t.Helper()
		db, err := local.Open(filepath.Join(work, name), local.Options{NoSync: true})
		if err != nil {
			t.Fatal(err)
		}
		store, err := fdbpq.Open(t.Context(), db, fdbpq.Options{Exclusive: true})
		if err == nil {
			id, err = store.ID(), db.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	checked := func(name string) (said string) {
		t.Helper()
		var out bytes.Buffer
		if err := Check(t.Context(), at(name), slog.New(slog.DiscardHandler), &out); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	was := change("first")
	to := filepath.Join(work, "monday")
	var said bytes.Buffer
	if err := Backup(t.Context(), at("first"), to, &said); err != nil || !strings.Contains(said.String(), "which no pqd has open, is copied to "+to) {
		t.Fatalf("%s %v", &said, err)
	}
	before := files(t, to)
	if said := checked("monday"); !strings.Contains(said, "no damage (id "+was+")") {
		t.Error(said)
	}
	if after := files(t, to); !maps.Equal(before, after) {
		t.Errorf("check has changed the files from\n%v\nto\n%v", before, after)
	}

	later := change("second")
	said.Reset()
	if err := Restore(at("second"), to, &said); err != nil {
		t.Fatal(err)
	}
	if said := checked("second"); !strings.Contains(said, was) {
		t.Error(said)
	}
	_, kept, _ := strings.Cut(said.String(), "what was there is in ")
	kept, _, _ = strings.Cut(kept, ":")
	if said := checked("second/" + filepath.Base(kept)); !strings.Contains(said, later) {
		t.Error(said)
	}
	if err := Backup(t.Context(), at("nowhere"), to+"2", &said); err == nil || !strings.Contains(err.Error(), "there is no store in") {
		t.Errorf("a backup of nothing: %v", err)
	}
}

// files are the files of a directory, with what a change would change.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[string]string)
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			t.Fatal(err)
		}
		all[e.Name()] = fmt.Sprint(info.Size(), info.Mode(), info.ModTime().UnixNano())
	}
	return all
}

// leaveSocket leaves a socket behind, as a process does that is killed.
func leaveSocket(t *testing.T, path string) {
	t.Helper()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}
