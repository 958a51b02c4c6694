package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
)

// A store that only one process can open must have a prefix for itself: bridges
// under one prefix share the requests, and with two stores each would get a
// part of every queue. A bridge refuses to start beside a stranger, one with
// another store, or with a copy of this one: a backup that was restored has the
// id of what it is a copy of. Two of them may still meet when servers that were apart find
// together, or when one connects to another server. Then one of the two stands
// aside: it leaves the requests to the other, says so, and comes back when the
// other has gone. It is the one that started later; one that does not look for
// strangers, because its store can be shared, is never the one.

// How long to listen for other bridges: for the first answer, and after each.
// When nobody is there, the server says so at once.
const (
	firstAnswer = 2 * time.Second
	nextAnswer  = 250 * time.Millisecond
)

// The pauses between looks for strangers: short after a reconnect, when others
// may be on their way back too, and longer from look to look.
const (
	firstLook = time.Second
	lastLook  = 30 * time.Second
)

// stranger is a bridge with the same prefix and another store, or one whose
// prefix lies within this one's or the other way round: then both get the
// requests of the longer one.
type stranger micro.Info

// within says whether all subjects of one prefix lie under the other.
func within(prefix, other string) bool { return strings.HasPrefix(prefix+".", other+".") }

func (s *service) describe(o stranger) error {
	meta := o.Metadata
	if ours := s.bridge.options.Prefix; meta[metaPrefix] != ours {
		return fmt.Errorf("bridge %s already serves the prefix %q, and this one is to serve %q: one of the two lies within the other, and each request there would go to either bridge; use another prefix",
			o.ID, meta[metaPrefix], ours)
	}
	if meta[metaStoreID] == s.bridge.store.ID() {
		return fmt.Errorf("bridge %s already serves the prefix %q with a copy of this store (id %s; this one is %s): each would get a share of every queue; use another prefix, or one of the copies",
			o.ID, s.bridge.options.Prefix, meta[metaStoreID], s.bridge.options.StoreName)
	}
	return fmt.Errorf("bridge %s already serves the prefix %q with another store (id %s; this one is %s, id %s): each would get a share of every queue; use another prefix, or one store",
		o.ID, s.bridge.options.Prefix, meta[metaStoreID], s.bridge.options.StoreName, s.bridge.store.ID())
}

// outranks says whether this bridge is the one to stand aside.
func (s *service) outranks(o stranger) bool {
	started, err := time.Parse(time.RFC3339Nano, o.Metadata[metaStarted])
	if err != nil || started.Before(s.started) {
		return true
	}
	return started.Equal(s.started) && o.ID < s.identity.ID
}

// refuseStrangers returns an error when there is a stranger.
func (s *service) refuseStrangers(ctx context.Context) error {
	strangers, err := s.strangers(ctx)
	if err == nil && len(strangers) > 0 {
		err = s.describe(strangers[0])
	}
	return err
}

// strangers asks who else serves the prefix with another store, or part of it.
func (s *service) strangers(ctx context.Context) (found []stranger, err error) {
	nc := s.bridge.nc
	inbox := nc.NewInbox()
	sub, err := nc.SubscribeSync(inbox)
	if err != nil {
		return nil, fmt.Errorf("look for other bridges: %w", err)
	}
	defer s.unsubscribe(sub)
	ask, err := micro.ControlSubject(micro.InfoVerb, serviceName, "")
	if err != nil {
		return nil, err
	}
	if err := nc.PublishRequest(ask, inbox, nil); err != nil {
		return nil, fmt.Errorf("look for other bridges: %w", err)
	}
	for patience := firstAnswer; ; patience = nextAnswer {
		m, err := s.nextAnswer(ctx, sub, patience)
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case errors.Is(err, context.DeadlineExceeded), errors.Is(err, nats.ErrNoResponders):
			return found, nil
		case err != nil:
			return nil, fmt.Errorf("look for other bridges: %w", err)
		}
		var other micro.Info
		if err := json.Unmarshal(m.Data, &other); err != nil {
			continue // no bridge of ours
		}
		meta := other.Metadata
		// Of a store that only one process can open, another one has a copy.
		shared := meta[metaStoreID] == s.bridge.store.ID() && meta[metaStarted] == ""
		ours, theirs := s.bridge.options.Prefix, meta[metaPrefix]
		if other.ID == s.identity.ID || ours == theirs && shared || !within(ours, theirs) && !within(theirs, ours) {
			continue
		}
		found = append(found, stranger(other))
	}
}

func (s *service) nextAnswer(ctx context.Context, sub *nats.Subscription, patience time.Duration) (*nats.Msg, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return sub.NextMsgWithContext(ctx)
}

// lookout looks for strangers as long as the bridge serves.
type lookout struct {
	bridge *Bridge
	cancel context.CancelFunc
	done   chan struct{}
	warned map[string]bool // ids of strangers that were told of

	mu    sync.Mutex
	aside error // why the bridge leaves requests to another one
}

func (l *lookout) start(b *Bridge) {
	l.bridge, l.warned = b, make(map[string]bool)
	if !b.options.Exclusive {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	l.cancel, l.done = cancel, make(chan struct{})
	connected := b.nc.StatusChanged(nats.CONNECTED)
	go func() {
		defer close(l.done)
		defer b.nc.RemoveStatusListener(connected)
		pause := firstLook
		for {
			next := time.NewTimer(pause)
			select {
			case <-ctx.Done():
				next.Stop()
				return
			case <-connected:
				pause = firstLook
			case <-next.C:
				pause = min(2*pause, lastLook)
			}
			next.Stop()
			l.look(ctx)
		}
	}()
}

func (l *lookout) stop() {
	if l.cancel != nil {
		l.cancel()
		<-l.done
	}
}

// reason says why the bridge stands aside, or nil.
func (l *lookout) reason() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.aside
}

func (l *lookout) set(reason error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.aside = reason
}

// look looks once and does what is to be done. When it cannot look, or not do
// it, everything stays as it is until the next time.
func (l *lookout) look(ctx context.Context) {
	b := l.bridge
	if !b.nc.IsConnected() {
		return
	}
	strangers, err := b.service.strangers(ctx)
	if err != nil {
		b.options.Logger.Debug("look for other bridges", "error", err)
		return
	}
	var reason error
	for _, o := range strangers {
		switch problem := b.service.describe(o); {
		case b.service.outranks(o):
			reason = problem
		case !l.warned[o.ID]:
			l.warned[o.ID] = true
			b.options.Logger.Error("another store under the same prefix; that bridge started later and is to stand aside", "error", problem)
		}
	}
	switch aside := l.reason() != nil; {
	case reason != nil && !aside:
		l.set(reason)
		err = b.standAside(ctx)
		b.options.Logger.Error("standing aside: no requests are taken until the other bridge has gone", "error", reason)
	case reason == nil && aside:
		if err = b.comeBack(); err == nil {
			l.set(nil)
			b.options.Logger.Info("serving again: the other bridge has gone")
		}
	}
	if err != nil {
		b.options.Logger.Error("look for other bridges", "error", err)
	}
}

// errAside is for those who wait when the bridge stands aside.
var errAside = &failure{code: 409, text: "this bridge leaves the prefix to another one: ask again", description: "Server Shutdown"}

// standAside takes no more requests. What has arrived is still done; those who
// wait are refused, because what they wait for goes elsewhere now. Signals go with
// the settlements: a subscription that answers nothing would keep the server
// from saying that nobody does.
func (b *Bridge) standAside(ctx context.Context) (err error) {
	b.intake.mu.Lock()
	defer b.intake.mu.Unlock()
	for _, sub := range []**nats.Subscription{&b.subs.requests, &b.subs.signals, &b.subs.acks} {
		if *sub != nil {
			err = errors.Join(err, b.receiveRest(ctx, *sub))
			*sub = nil
		}
	}
	b.waits.close(errAside)
	return err
}

// comeBack takes requests again.
func (b *Bridge) comeBack() error {
	b.intake.mu.Lock()
	defer b.intake.mu.Unlock()
	b.waits.open()
	err := b.subscribe()
	if err != nil {
		b.silence(&b.subs.requests, &b.subs.signals, &b.subs.acks)
	}
	return err
}
