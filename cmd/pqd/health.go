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

// health answers whether pqd can do its work. The zero value is that of a
// process that is still starting.
type health struct {
	bridge   atomic.Pointer[func() error] // the bridge's own answer, once there is a bridge
	damage   atomic.Pointer[func() error] // whether the store is damaged, once there is a store
	stopping atomic.Bool
}

// serving hands the question over to the bridge.
func (h *health) serving(ready func() error) { h.bridge.Store(&ready) }

// stored hands over the question whether the store is damaged.
func (h *health) stored(damage func() error) { h.damage.Store(&damage) }

// stop is called when pqd begins to stop, before anything is taken down.
func (h *health) stop() { h.stopping.Store(true) }

// ready says why no request should be sent here, or nil.
func (h *health) ready() error {
	if err := h.works(); err != nil {
		return err
	}
	if damage := h.damage.Load(); damage != nil {
		return (*damage)()
	}
	return nil
}

// works is ready but for damage.
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

// live says why pqd cannot work, or nil. Unlike ready, it has patience with a
// process that waits for NATS to start with, and with damage of the store, which
// another start does not mend.
func (h *health) live() error {
	if err := h.works(); err != errStarting {
		return err
	}
	return nil
}

// metric says for Prometheus what /readyz says.
func (h *health) metric() prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "pq_ready", Help: "Whether pqd can do its work: 1 or 0, as /readyz."}, func() float64 {
		if h.ready() != nil {
			return 0
		}
		return 1
	})
}
