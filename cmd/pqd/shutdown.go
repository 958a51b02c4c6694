package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pqbridge/pqbridge/cmd/pqd/internal/broker"
)

// shutdownLimit is below the time after which service managers kill a process.
const shutdownLimit = 10 * time.Second

// Parts of shutdownLimit. The rest is for closing the store.
const (
	tellLimit  = 2 * time.Second // for the embedded NATS server to announce its stop; it may first give leaderships away for a second
	drainLimit = 7 * time.Second // for answers to reach the NATS server
	readLimit  = 9 * time.Second // and from there, if it is embedded, the clients
)

// await returns the error from done, or an error if none comes within the limit after ctx
// has ended.
func await(ctx context.Context, done <-chan error, limit time.Duration) error {
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	select {
	case err := <-done:
		return err
	case <-time.After(limit):
		return fmt.Errorf("shutdown took longer than %s; acknowledged items are safe", limit)
	}
}

// drain answers the requests that pqd has received, and waits until clients have read the
// answers. New requests go to another pqd, or the server answers that there are no
// responders.
func (d *daemon) drain(ctx context.Context, s service) (err error) {
	d.health.stop()
	d.log.Info("stopping")
	read, cancel := context.WithTimeout(context.WithoutCancel(ctx), readLimit)
	defer cancel()
	drain, cancel := context.WithTimeout(read, drainLimit)
	defer cancel()
	if d.settings.Shared() {
		// Another pqd serves the clients of this one before they have to go.
		if failure := s.drain(drain); failure != nil {
			err = fmt.Errorf("hand over: %w", failure)
		}
	}
	if d.embedded != nil {
		tell, cancel := context.WithTimeout(drain, tellLimit)
		broker.EnterLameDuck(tell, d.embedded.srv, d.embedded.lameDuck)
		cancel()
	}
	if !d.settings.Shared() {
		if failure := s.drain(drain); failure != nil {
			err = errors.Join(err, fmt.Errorf("drain the bridge: %w", failure))
		}
	}
	if d.embedded == nil {
		return err
	}
	behind, failure := broker.AwaitRead(read, d.embedded.srv)
	if behind > 0 {
		d.log.Warn("closing connections whose clients did not read their answers in time", "connections", behind)
	}
	if failure != nil {
		err = errors.Join(err, fmt.Errorf("wait for clients to read: %w", failure))
	}
	return err
}
