package main

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pqbridge/pqbridge/cmd/pqd/internal/broker"
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
	e, err := broker.EmbeddedSettings(settings.Settings{NATSConfig: settings.ExistingFile(file), Listen: settings.Address{Host: "127.0.0.1"}})
	if err != nil {
		t.Fatal(err)
	}
	if e.Options.LameDuckGracePeriod <= shutdownLimit || e.Options.LameDuckDuration <= e.Options.LameDuckGracePeriod {
		t.Errorf("lame duck mode closes connections after %s, all by %s", e.Options.LameDuckGracePeriod, e.Options.LameDuckDuration)
	}
}

func TestShutdownIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- await(ctx, make(chan error), shutdownLimit) }()

		select {
		case err := <-ended:
			t.Fatalf("ended without being asked to: %v", err)
		case <-time.After(time.Hour): // of the bubble's time
		}
		asked := time.Now()
		cancel()
		if err := <-ended; err == nil {
			t.Error("no error after a shutdown that did not finish")
		}
		if took := time.Since(asked); took != shutdownLimit {
			t.Errorf("gave up after %s, expected %s", took, shutdownLimit)
		}
	})
}
