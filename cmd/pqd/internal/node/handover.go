package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/pqbridge/pqbridge/bridge"
	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster"
	"github.com/pqbridge/pqbridge/protocol"
)

// handovers let another node become active in the place of this one.
type handovers struct {
	log      *slog.Logger
	name     string // of this node
	db       *cluster.DB
	storeLog *Log
	fronts   *fronts
	asked    chan *handover
}

// handover is a request to step down.
type handover struct {
	to   string // the node that takes over
	done chan error
}

// stepDown hands the store over to another node while this one is active: it answers
// the requests in flight, and names its successor in the log.
func (h *handovers) stepDown(ctx context.Context, to string) (done protocol.SteppedDown, err error) {
	to, err = h.successor(to)
	if err != nil {
		return done, err
	}
	epoch := h.db.Status().Epoch
	asked := &handover{to: to, done: make(chan error, 1)}
	select {
	case h.asked <- asked:
	case <-ctx.Done():
		return done, &bridge.Refusal{Text: "this pqd starts or stops to serve just now, nothing was done: try again"}
	}
	select {
	case err = <-asked.done:
	case <-ctx.Done():
		err = ctx.Err()
	}
	if errors.Is(err, cluster.ErrNotActive) {
		return done, errors.New("another pqd has taken over meanwhile")
	}
	return protocol.SteppedDown{Node: h.name, Successor: to, Epoch: epoch}, err
}

// takeoverLimit bounds the wait for a successor to serve.
const takeoverLimit = 2 * time.Second

// handOver answers the requests under way, releases the term, and returns when the successor serves: until then the
// bridge stays subscribed, so that no request is lost on its way. If ctx has ended, this process is about to end.
func (h *handovers) handOver(ctx, drain context.Context, term *cluster.Term, b *bridge.Bridge, asked *handover) {
	log := h.log
	serves, forget, err := h.fronts.latest().Successor(term.Epoch())
	if err != nil {
		log.Warn("requests in flight may get no answer", "error", err)
	} else {
		defer forget()
	}
	if err := b.Leave(drain); err != nil {
		log.Warn("requests were left without an answer", "error", err)
	}
	to := ""
	if asked != nil {
		to = asked.to
	}
	if ctx.Err() != nil {
		h.moveLog(drain)
	}
	_, alone := h.db.Successor(to)
	err = h.db.Release(drain, to)
	if asked != nil {
		asked.done <- err
	}
	switch {
	case errors.Is(err, cluster.ErrNotActive): // another one has taken over
	case err != nil:
		log.Warn("stepping down failed: a takeover waits for silence", "error", err)
		return
	case alone != nil:
		return
	}
	limit, cancel := context.WithTimeout(drain, takeoverLimit)
	defer cancel()
	select {
	case <-serves:
	case <-limit.Done():
		log.Warn("no other pqd serves yet: requests in flight may get no answer")
	}
}

// releaseLimit bounds the wait for the log to take the release.
const releaseLimit = 2 * time.Second

// release gives the term up, so that another node may become active at once.
func (h *handovers) release(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, releaseLimit)
	defer cancel()
	if err := h.db.Release(ctx, ""); err != nil && !errors.Is(err, cluster.ErrNotActive) {
		h.log.Warn("stepping down failed", "error", err)
	}
}

// moveLog moves the leadership of the log to another server, if the embedded one leads, while no append is under
// way: an append to a leader that steps down gets no answer.
func (h *handovers) moveLog(ctx context.Context) {
	if h.storeLog.broker == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, releaseLimit)
	defer cancel()
	if err := h.storeLog.replica().MoveLeader(ctx, h.db.Keepers()); err != nil {
		h.log.Warn("the log has no new leader yet: the other nodes wait for one", "error", err)
	}
}

// successor returns the node that takes over, or the reason why there is none.
func (h *handovers) successor(to string) (string, error) {
	found, err := h.db.Successor(to)
	switch {
	case err == nil:
		return found, nil
	case to == h.name:
		return "", &bridge.Refusal{Malformed: true, Text: fmt.Sprintf("node %q is active already: expected another one", to)}
	case to == "":
		return "", &bridge.Refusal{Text: "no other pqd can take over, nothing was done: start one, and try again when it follows"}
	}
	for _, o := range h.db.Status().Members {
		if o.Name == to {
			return "", &bridge.Refusal{Text: fmt.Sprintf("node %s cannot take over now, nothing was done: it was heard %s ago as a %s", to, time.Since(o.Heard).Round(time.Millisecond), o.Role)}
		}
	}
	return "", &bridge.Refusal{Malformed: true, Text: fmt.Sprintf("node %.80q is not known: expected one that the status names", to)}
}
