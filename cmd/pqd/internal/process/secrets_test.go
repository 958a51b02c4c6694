package process

import (
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pqbridge/pqbridge/cmd/pqd/internal/settings"
)

// Each file with a secret is looked at. A file that its group alone can read is meant
// that way.
func TestWhichSecretsAreOpen(t *testing.T) {
	t.Parallel()
	for variable, login := range map[string]func(settings.ExistingFile) settings.Settings{
		"NATS_CREDS": func(f settings.ExistingFile) settings.Settings {
			return settings.Settings{NATS: settings.NATS{Creds: f}}
		},
		"NATS_NKEY": func(f settings.ExistingFile) settings.Settings {
			return settings.Settings{NATS: settings.NATS{NKey: f}}
		},
		"NATS_KEY":         func(f settings.ExistingFile) settings.Settings { return settings.Settings{NATS: settings.NATS{Key: f}} },
		"PQ_HTTP_KEY":      func(f settings.ExistingFile) settings.Settings { return settings.Settings{WebKey: f} },
		"PQ_CONSOLE_TOKEN": func(f settings.ExistingFile) settings.Settings { return settings.Settings{Token: f} },
		"PQ_CONSOLE_CREDS": func(f settings.ExistingFile) settings.Settings { return settings.Settings{WebCreds: f} },
	} {
		for mode, open := range map[fs.FileMode]bool{0o600: false, 0o640: false, 0o604: true} {
			file := filepath.Join(t.TempDir(), "secret")
			if err := os.WriteFile(file, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(file, mode); err != nil {
				t.Fatal(err)
			}
			log := &strings.Builder{}
			WarnOfOpenSecrets(login(settings.ExistingFile(file)), slog.New(slog.NewTextHandler(log, nil)))
			if warned := strings.Contains(log.String(), "variable="+variable+" "); warned != open {
				t.Errorf("%s with mode %o: logged %q", variable, mode, log)
			}
		}
	}
}
