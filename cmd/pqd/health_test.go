package main

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestHealth(t *testing.T) {
	t.Parallel()
	away, damaged := errors.New("NATS is away"), errors.New("the store is damaged")
	var bridge error
	var h health
	for _, step := range []struct {
		name        string
		do          func()
		live, ready error
	}{
		{"starting", func() {}, nil, errStarting},
		{"serving", func() { h.serving(func() error { return bridge }) }, nil, nil},
		{"without NATS", func() { bridge = away }, away, away},
		{"serving again", func() { bridge = nil }, nil, nil},
		{"a damaged store", func() { h.stored(func() error { return damaged }) }, nil, nil},
		{"a damaged copy", func() { h.copies(func() error { return damaged }) }, nil, damaged},
		{"damaged and without NATS", func() { bridge = away }, away, away},
		{"stopping", h.stop, errStopping, errStopping},
	} {
		step.do()
		if live := h.live(); live != step.live {
			t.Errorf("%s: live says %v, expected %v", step.name, live, step.live)
		}
		if ready := h.ready(); ready != step.ready {
			t.Errorf("%s: ready says %v, expected %v", step.name, ready, step.ready)
		}
	}
	if page := h.readyPage()["damage"]; page != damaged.Error() {
		t.Errorf("/readyz says %q of the damage", page)
	}
	if page, told := h.page()["damage"]; told {
		t.Errorf("/healthz says %q of the damage, which takes time to describe", page)
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
