package main

import (
	"bytes"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pqbridge/pqbridge/cmd/pqd/internal/settings"
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
	c := startControl(filepath.Join(dir, settings.SocketName), db, nil, slog.New(slog.DiscardHandler))
	if c.server == nil {
		t.Fatal("no socket where a killed process has left one")
	}
	back := func(to string) (said string, err error) {
		var out bytes.Buffer
		err = backup(t.Context(), settings.Settings{Store: settings.StoreName{Engine: "local", Place: dir}}, to, &out)
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
	refused(to, "no backup was made: ") // it is there

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
	if err := c.stop(); err != nil {
		t.Fatal(err)
	}
	refused(to+"2", "no pqd has the store in "+dir+" open")
	leaveSocket(t, filepath.Join(dir, settings.SocketName))
	refused(to+"2", "no pqd has the store in "+dir+" open")
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
