// Package health says whether pqd can do its work, from what its parts say.
//
// It tells two things apart: whether pqd should get requests (ready), and whether a new start could help (live). A pqd
// that waits for others, for NATS, or for another node to mend its copy is live, and is not ready.
package health

import (
	"errors"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

var (
	errStarting = errors.New("starting")
	errStopping = errors.New("stopping")
)

// waitingError is a reason not to be ready that a restart of pqd does not remove.
type waitingError struct{ error }

// Waiting makes err such a reason.
func Waiting(err error) error { return waitingError{err} }

// Health answers whether pqd can do its work. The zero value answers that pqd is starting.
type Health struct {
	bridge   atomic.Pointer[func() error]  // the bridge's own answer, once there is a bridge
	console  atomic.Pointer[func() error]  // whether the console has a connection, if there is a console
	copied   atomic.Pointer[func() error]  // whether this node's copy is damaged, if pqd has one
	damage   atomic.Pointer[func() error]  // whether the store is damaged, if it has files of its own
	role     atomic.Pointer[func() string] // the role of pqd in its cluster
	stopping atomic.Bool
}

// Serving makes the bridge answer from now on.
func (h *Health) Serving(ready func() error) { h.bridge.Store(&ready) }

// Node makes a node answer from now on.
func (h *Health) Node(ready func() error, role func() string) {
	h.role.Store(&role)
	h.Serving(ready)
}

// Stored sets the function that reports damage of the store. No other pqd has a good copy.
func (h *Health) Stored(damage func() error) { h.damage.Store(&damage) }

// Copies sets the function that reports damage of this node's copy. Other nodes have good copies.
func (h *Health) Copies(damage func() error) { h.copied.Store(&damage) }

// Console sets the function that says whether the console is without a connection.
func (h *Health) Console(away func() error) { h.console.Store(&away) }

// Stop is called when pqd begins to stop, before any part ends.
func (h *Health) Stop() { h.stopping.Store(true) }

// Ready returns the reason for which pqd must get no requests, or nil. It is nil for a damaged store: pqd serves
// the requests that need no damaged file, and no other pqd could serve the rest.
func (h *Health) Ready() error {
	if err := h.works(); err != nil {
		return err
	}
	for _, part := range []*atomic.Pointer[func() error]{&h.console, &h.copied} {
		if why := part.Load(); why != nil {
			if err := (*why)(); err != nil {
				return err
			}
		}
	}
	return nil
}

// works is like Ready, but ignores the console, and damage of a copy.
func (h *Health) works() error {
	if h.stopping.Load() {
		return errStopping
	}
	bridge := h.bridge.Load()
	if bridge == nil {
		return errStarting
	}
	return (*bridge)()
}

// Live returns the reason for which pqd cannot work, or nil. Unlike Ready it is nil while pqd waits for NATS at its
// start or for other nodes, and when a copy is damaged, because a restart would not help.
func (h *Health) Live() error {
	err := h.works()
	if err == errStarting || errors.As(err, new(waitingError)) {
		return nil
	}
	return err
}

// Page returns the fields that /healthz and /readyz add to the state.
func (h *Health) Page() map[string]string {
	if role := h.role.Load(); role != nil {
		return map[string]string{"role": (*role)()}
	}
	return map[string]string{}
}

// ReadyPage returns the fields that /readyz adds: the fields of Page, and the damage of the store.
func (h *Health) ReadyPage() map[string]string {
	page := h.Page()
	if damage := h.damage.Load(); damage != nil {
		if err := (*damage)(); err != nil {
			page["damage"] = err.Error()
		}
	}
	return page
}

// Metric is pq_ready: 1 if /readyz answers 200.
func (h *Health) Metric() prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "pq_ready", Help: "Whether pqd can do its work: 1 or 0, as /readyz."}, func() float64 {
		if h.Ready() != nil {
			return 0
		}
		return 1
	})
}
