package main

import (
	"errors"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

var (
	errStarting = errors.New("starting")
	errStopping = errors.New("stopping")
)

// health answers whether pqd can do its work. The zero value answers that pqd is starting.
type health struct {
	bridge   atomic.Pointer[func() error]  // the bridge's own answer, once there is a bridge
	console  atomic.Pointer[func() error]  // whether the console has a connection, if there is a console
	copied   atomic.Pointer[func() error]  // whether this node's copy is damaged, if pqd has one
	damage   atomic.Pointer[func() error]  // whether the store is damaged, if it has files of its own
	role     atomic.Pointer[func() string] // the role of pqd in its cluster
	stopping atomic.Bool
}

// serving makes the bridge answer from now on.
func (h *health) serving(ready func() error) { h.bridge.Store(&ready) }

// member makes the member of a cluster answer from now on.
func (h *health) member(ready func() error, role func() string) {
	h.role.Store(&role)
	h.serving(ready)
}

// stored sets the function that reports damage of the store. No other pqd has a good copy.
func (h *health) stored(damage func() error) { h.damage.Store(&damage) }

// copies sets the function that reports damage of this node's copy. Other nodes have good copies.
func (h *health) copies(damage func() error) { h.copied.Store(&damage) }

// stop is called when pqd begins to stop, before any part ends.
func (h *health) stop() { h.stopping.Store(true) }

// ready returns the reason for which pqd must get no requests, or nil. It is nil for a damaged store: pqd serves
// the requests that need no damaged file, and no other pqd could serve the rest.
func (h *health) ready() error {
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

// works is like ready, but ignores the console, and damage of a copy.
func (h *health) works() error {
	if h.stopping.Load() {
		return errStopping
	}
	bridge := h.bridge.Load()
	if bridge == nil {
		return errStarting
	}
	return (*bridge)()
}

// live returns the reason for which pqd cannot work, or nil. Unlike ready it is nil while pqd waits for NATS at its
// start or for other nodes, and when a copy is damaged, because a restart would not help.
func (h *health) live() error {
	err := h.works()
	if err == errStarting || errors.As(err, new(waitingError)) {
		return nil
	}
	return err
}

// page returns the fields that /healthz and /readyz add to the state.
func (h *health) page() map[string]string {
	if role := h.role.Load(); role != nil {
		return map[string]string{"role": (*role)()}
	}
	return map[string]string{}
}

// readyPage returns the fields that /readyz adds: the fields of page, and the damage of the store.
func (h *health) readyPage() map[string]string {
	page := h.page()
	if damage := h.damage.Load(); damage != nil {
		if err := (*damage)(); err != nil {
			page["damage"] = err.Error()
		}
	}
	return page
}

// metric is pq_ready: 1 if /readyz answers 200.
func (h *health) metric() prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "pq_ready", Help: "Whether pqd can do its work: 1 or 0, as /readyz."}, func() float64 {
		if h.ready() != nil {
			return 0
		}
		return 1
	})
}
