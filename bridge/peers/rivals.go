package peers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
)

// ServiceName is what service discovery finds bridges by, whatever their prefix.
const ServiceName = "pq"

// How long to listen for other bridges: for the first answer, and after each.
// When nobody is there, the server says so at once.
const (
	firstAnswer = 2 * time.Second
	nextAnswer  = 250 * time.Millisecond
)

// Rivals finds the bridges that must not serve beside this one. Bridges under
// one prefix share the requests, so with two stores each would get a part of
// every queue; of two prefixes that lie within each other, both get the requests
// of the longer one.
type Rivals struct {
	nc        *nats.Conn
	self      Identity
	storeName string
	log       *slog.Logger
}

// NewRivals returns what finds the rivals of a bridge on its connection.
func NewRivals(nc *nats.Conn, self Identity, storeName string, log *slog.Logger) *Rivals {
	return &Rivals{nc: nc, self: self, storeName: storeName, log: log}
}

// Refuse returns an error that names a rival, if there is one. A bridge that
// starts can be found before it asks: of two that start at the same time, at
// least one finds the other.
func (r *Rivals) Refuse(ctx context.Context) error {
	rivals, err := r.find(ctx)
	if err == nil && len(rivals) > 0 {
		err = r.describe(rivals[0])
	}
	return err
}

// find asks all bridges who they are.
func (r *Rivals) find(ctx context.Context) (found []Identity, err error) {
	inbox := r.nc.NewInbox()
	sub, err := r.nc.SubscribeSync(inbox)
	if err != nil {
		return nil, fmt.Errorf("look for other bridges: %w", err)
	}
	defer r.unsubscribe(sub)
	ask, err := micro.ControlSubject(micro.InfoVerb, ServiceName, "")
	if err != nil {
		return nil, err
	}
	if err := r.nc.PublishRequest(ask, inbox, nil); err != nil {
		return nil, fmt.Errorf("look for other bridges: %w", err)
	}
	for patience := firstAnswer; ; patience = nextAnswer {
		m, err := r.next(ctx, sub, patience)
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case errors.Is(err, context.DeadlineExceeded), errors.Is(err, nats.ErrNoResponders):
			return found, nil
		case err != nil:
			return nil, fmt.Errorf("look for other bridges: %w", err)
		}
		var info micro.Info
		if err := json.Unmarshal(m.Data, &info); err != nil {
			continue // not a bridge
		}
		if other := identityOf(info.ServiceIdentity); r.self.rivals(other) {
			found = append(found, other)
		}
	}
}

func (r *Rivals) next(ctx context.Context, sub *nats.Subscription, patience time.Duration) (*nats.Msg, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return sub.NextMsgWithContext(ctx)
}

func (r *Rivals) unsubscribe(sub *nats.Subscription) {
	if err := sub.Unsubscribe(); err != nil {
		r.log.Debug("unsubscribing failed", "subject", sub.Subject, "error", err)
	}
}

// describe says why two bridges must not serve side by side.
func (r *Rivals) describe(o Identity) error {
	switch {
	case o.Prefix != r.self.Prefix:
		return fmt.Errorf("bridge %s already serves the prefix %q, and this one is to serve %q: one of the two lies within the other, and each request there would go to either bridge; use another prefix",
			o.ID, o.Prefix, r.self.Prefix)
	case o.StoreID == r.self.StoreID:
		return fmt.Errorf("bridge %s already serves the prefix %q with a copy of this store (id %s; this one is %s): each would get a share of every queue; use another prefix, or one of the copies",
			o.ID, o.Prefix, o.StoreID, r.storeName)
	}
	return fmt.Errorf("bridge %s already serves the prefix %q with another store (id %s; this one is %s, id %s): each would get a share of every queue; use another prefix, or one store",
		o.ID, o.Prefix, o.StoreID, r.storeName, r.self.StoreID)
}
