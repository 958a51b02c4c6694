package process

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

func TestShutdownIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- Await(ctx, make(chan error), ShutdownLimit) }()

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
		if took := time.Since(asked); took != ShutdownLimit {
			t.Errorf("gave up after %s, expected %s", took, ShutdownLimit)
		}
	})
}
