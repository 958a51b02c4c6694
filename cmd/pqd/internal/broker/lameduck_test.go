package broker

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/pqbridge/pqbridge/cmd/pqd/internal/process"
	"github.com/pqbridge/pqbridge/cmd/pqd/internal/settings"
)

// What a configuration file says about lame duck mode does not cut off clients while
// pqd lets them read.
func TestLameDuckOutlastsTheStop(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "nats.conf")
	if err := os.WriteFile(file, []byte(`lame_duck_grace_period: "1s", lame_duck_duration: "30s"`), 0o600); err != nil {
		t.Fatal(err)
	}
	e, err := readServerOptions(settings.Settings{NATSConfig: settings.ExistingFile(file), Listen: settings.Address{Host: "127.0.0.1"}})
	if err != nil {
		t.Fatal(err)
	}
	if e.Options.LameDuckGracePeriod <= process.ShutdownLimit || e.Options.LameDuckDuration <= e.Options.LameDuckGracePeriod {
		t.Errorf("lame duck mode closes connections after %s, all by %s", e.Options.LameDuckGracePeriod, e.Options.LameDuckDuration)
	}
}
