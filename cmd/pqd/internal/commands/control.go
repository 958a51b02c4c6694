package commands

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/pqbridge/pqbridge/cmd/pqd/internal/settings"
	"github.com/pqbridge/pqbridge/cmd/pqd/internal/web"
	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster"
)

// Control answers on the socket.
type Control struct {
	server *http.Server
	log    *slog.Logger
	store  backuper
	node   *cluster.DB // nil for an embedded store
	busy   sync.Mutex  // one backup at a time, and one recovery
}

// backuper is a store of which a backup can be made while it is in use.
type backuper interface {
	Backup(dir string) error
}

// backupRequest asks for a backup into a directory, by its absolute path.
type backupRequest struct {
	To string `json:"to"`
}

// backupAnswer is the result of a backup, or its error.
type backupAnswer struct {
	To    string        `json:"to"`
	Bytes int64         `json:"bytes"`
	Took  time.Duration `json:"took"`
	Error string        `json:"error,omitempty"`
}

// StartControl serves the socket of a store that this process has open; node is nil for
// an embedded one. A failure is logged and ends nothing: only backups and recoveries need
// the socket.
func StartControl(path string, store backuper, node *cluster.DB, log *slog.Logger) *Control {
	// A process that was killed has left the socket behind: the store's lock is ours.
	err := os.Remove(path)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	var listener net.Listener
	if err == nil {
		listener, err = net.Listen("unix", path)
	}
	if err == nil {
		err = os.Chmod(path, 0o600)
	}
	if err != nil {
		log.Warn("making the socket for backups failed: pqd backup and pqd recover do not work with this process", "error", err)
		return &Control{}
	}
	c := &Control{log: log, store: store, node: node}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /backup", c.backup)
	if node != nil {
		mux.HandleFunc("POST /recover", c.recover)
	}
	c.server = &http.Server{Handler: mux, ReadTimeout: 10 * time.Second, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn)}
	go func() {
		if err := c.server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			log.Warn("the socket for backups failed: pqd backup and pqd recover no longer work with this process", "error", err)
		}
	}()
	return c
}

// Stop closes the socket. A running backup continues until the store is closed, which
// waits for it.
func (c *Control) Stop() error {
	if c.server == nil {
		return nil
	}
	return c.server.Close()
}

func (c *Control) backup(w http.ResponseWriter, r *http.Request) {
	var ask backupRequest
	if err := json.NewDecoder(r.Body).Decode(&ask); err != nil || !filepath.IsAbs(ask.To) {
		web.WriteJSON(w, http.StatusBadRequest, backupAnswer{Error: `expected {"to":"<absolute path>"}`})
		return
	}
	if !c.busy.TryLock() {
		web.WriteJSON(w, http.StatusConflict, backupAnswer{Error: "another backup is under way: wait for its end"})
		return
	}
	defer c.busy.Unlock()
	started := time.Now()
	err := c.store.Backup(ask.To)
	answer := backupAnswer{To: ask.To, Took: time.Since(started)}
	if err == nil {
		answer.Bytes, err = sizeOf(ask.To)
	}
	if errors.Is(err, fs.ErrExist) {
		answer.Error = fmt.Sprintf("%s exists, or an unfinished backup %s.partial: expected a directory that does not exist", ask.To, ask.To)
		c.log.Warn("backup refused", "to", ask.To, "error", answer.Error)
		web.WriteJSON(w, http.StatusConflict, answer)
		return
	}
	if err != nil {
		c.log.Error("backup failed", "to", ask.To, "error", err)
		answer.Error = err.Error()
		web.WriteJSON(w, http.StatusInternalServerError, answer)
		return
	}
	c.log.Info("backup made", "to", ask.To, "bytes", answer.Bytes, "took", answer.Took)
	web.WriteJSON(w, http.StatusOK, answer)
}

// recover answers pqd recover. It goes on when the caller has gone: a recovery that was begun is better finished.
func (c *Control) recover(w http.ResponseWriter, r *http.Request) {
	var ask RecoverRequest
	if err := json.NewDecoder(r.Body).Decode(&ask); err != nil {
		web.WriteJSON(w, http.StatusBadRequest, recoverAnswer{Error: `expected {"yes":false,"from":"<node>","without":"<node>,…"}`})
		return
	}
	if !c.busy.TryLock() {
		web.WriteJSON(w, http.StatusConflict, recoverAnswer{Error: "a backup or another recovery is under way here: wait for its end"})
		return
	}
	defer c.busy.Unlock()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), recoverLimit)
	defer cancel()
	consent := cluster.Consent{Source: ask.From}
	for name := range strings.SplitSeq(ask.Without, ",") {
		if name = strings.TrimSpace(name); name != "" {
			consent.Without = append(consent.Without, name)
		}
	}
	act := c.node.PlanRecovery
	if ask.Yes {
		act = c.node.Recover
	}
	plan, err := act(ctx, consent)
	answer, status := recoverAnswer{Plan: plan, Done: ask.Yes && err == nil}, http.StatusOK
	if err != nil {
		answer.Error, status = err.Error(), http.StatusConflict
	}
	web.WriteJSON(w, status, answer)
}

// sizeOf adds up the files of a directory.
func sizeOf(dir string) (bytes int64, err error) {
	entries, err := os.ReadDir(dir)
	for _, entry := range entries {
		info, infoErr := entry.Info()
		if infoErr != nil {
			return 0, infoErr
		}
		bytes += info.Size()
	}
	if err != nil {
		return 0, fmt.Errorf("look at the backup: %w", err)
	}
	return bytes, nil
}

// probeLimit is how long a pqd may take to say whether it is ready.
const probeLimit = 3 * time.Second

// Probe asks the pqd that runs with these settings on this machine whether it is ready.
func Probe(ctx context.Context, s settings.Settings) error {
	url, err := s.HTTP.Own(s.WebCert != "")
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, probeLimit)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/readyz", nil)
	if err != nil {
		return err
	}
	client := http.Client{Transport: &http.Transport{
		// The certificate has names for other machines. The probe sends nothing and trusts nobody: a process that
		// has this address on this machine has taken the place of pqd anyway.
		TLSClientConfig:   &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: true},
		DisableKeepAlives: true,
	}}
	answer, err := client.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode == http.StatusOK {
		return nil
	}
	var page struct{ Error string }
	if err := json.NewDecoder(answer.Body).Decode(&page); err != nil || page.Error == "" {
		return fmt.Errorf("%s answers %s: expected pqd's /readyz", url, answer.Status)
	}
	return fmt.Errorf("not ready: %s", page.Error)
}
