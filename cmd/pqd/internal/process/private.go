package process

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"

	"github.com/pqbridge/pqbridge/cmd/pqd/internal/settings"
	"github.com/pqbridge/pqbridge/fdbpq/kv/local"
)

// NotOthers are the permissions that only pqd's own user may have. The store holds the
// items of all users and the key that signs leases.
const NotOthers fs.FileMode = 0o077

// storeFile matches the names of a store's files. pqd changes the modes of no other files,
// and not the mode of a directory with other files in it.
var storeFile = regexp.MustCompile(`^(\d+\.(log|sst|blob)|(MANIFEST|OPTIONS)-\d+|marker\..*|LOCK|CURRENT|SYNCED|` + regexp.QuoteMeta(local.SpareName) + `|` + regexp.QuoteMeta(settings.SocketName) + `)$`)

// KeepPrivate removes other users' access to the store in dir, which this process has open.
// Files made later are private from the start: main sets the umask.
func KeepPrivate(dir string, log *slog.Logger) {
	entries, err := os.ReadDir(dir)
	paths, shared := []string(nil), false
	for _, entry := range entries {
		if ours := storeFile.MatchString(entry.Name()); !ours {
			shared = true
		} else if entry.Type().IsRegular() {
			paths = append(paths, filepath.Join(dir, entry.Name()))
		}
	}
	if !shared {
		paths = append(paths, dir)
	}
	changed := 0
	for _, path := range paths {
		info, pathErr := os.Stat(path)
		if pathErr == nil && info.Mode()&NotOthers != 0 {
			pathErr = os.Chmod(path, info.Mode()&^NotOthers)
			changed++
		}
		if !errors.Is(pathErr, fs.ErrNotExist) { // the store may have deleted the file meanwhile
			err = errors.Join(err, pathErr)
		}
	}
	switch {
	case err != nil:
		log.Warn("other users may have access to the store: expected mode 0700, for pqd's user alone", "directory", dir, "error", err)
	case changed > 0:
		log.Info("removed the access of other users to the store", "directory", dir, "files", changed)
	}
}

// WarnOfOpenSecrets warns of files with secrets that all users of the machine can read.
// They are not pqd's to change.
func WarnOfOpenSecrets(s settings.Settings, log *slog.Logger) {
	for _, secret := range []struct {
		variable string
		file     settings.ExistingFile
	}{
		{"NATS_CREDS", s.NATS.Creds}, {"NATS_NKEY", s.NATS.NKey}, {"NATS_KEY", s.NATS.Key},
		{"PQ_HTTP_KEY", s.WebKey}, {"PQ_CONSOLE_TOKEN", s.Token}, {"PQ_CONSOLE_CREDS", s.WebCreds},
	} {
		if secret.file != "" {
			WarnOfOpenSecret(secret.variable, secret.file, log)
		}
	}
}

// WarnOfOpenSecret warns of one such file.
func WarnOfOpenSecret(variable string, file settings.ExistingFile, log *slog.Logger) {
	if info, err := os.Stat(string(file)); err == nil && info.Mode()&0o004 != 0 {
		log.Warn("every user of this machine can read a secret: expected mode 0600, or 0640 for a group", "variable", variable, "file", file, "mode", info.Mode().Perm())
	}
}
