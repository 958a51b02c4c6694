package fdbpq

import (
	"context"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// Now is store time as a transaction of this process would use it.
func (s *Store) Now(ctx context.Context) (now int64, err error) {
	err = s.inside.DB.View(ctx, func(r kv.Reader) (err error) {
		now, err = s.inside.Clock.At(r)
		return err
	})
	return now, err
}

// Pulse moves store time a beat at a time, as Maintain does every second.
type Heartbeat struct{ store *Store }

func NewHeartbeat(s *Store) *Heartbeat { return &Heartbeat{s} }

func (p *Heartbeat) Beat(ctx context.Context) error { return p.store.Beat(ctx) }
