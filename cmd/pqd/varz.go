package main

import (
	"runtime"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/bridge"
)

// varz is what /varz shows.
type varz struct {
	Version string     `json:"version"`
	Go      string     `json:"go"`
	CPUs    int        `json:"cpus"`
	Start   time.Time  `json:"start"`
	Uptime  string     `json:"uptime"`
	Store   string     `json:"store"`
	StoreID string     `json:"store_id,omitempty"` // not known to a follower
	Prefix  string     `json:"prefix"`
	Sync    bool       `json:"sync"`
	Limits  varzLimits `json:"limits"`
	NATS    varzNATS   `json:"nats"`
}

// varzLimits are the limits beyond which the bridge refuses.
type varzLimits struct {
	Requests   int   `json:"requests"`
	Bytes      int64 `json:"bytes"`
	Waiters    int   `json:"waiters"`
	MaxPayload int64 `json:"max_payload,omitempty"` // the NATS server's
}

// varzNATS describes pqd's own connection and the embedded server.
type varzNATS struct {
	URL        string `json:"url,omitempty"`
	Status     string `json:"status"`
	Reconnects uint64 `json:"reconnects"`
	InMsgs     uint64 `json:"in_msgs"`
	OutMsgs    uint64 `json:"out_msgs"`
	InBytes    uint64 `json:"in_bytes"`
	OutBytes   uint64 `json:"out_bytes"`
	Embedded   bool   `json:"embedded"`
	Clients    int    `json:"clients,omitempty"` // of the embedded server
}

func (d *daemon) varz() varz {
	v := varz{
		Version: version(),
		Go:      runtime.Version(),
		CPUs:    d.cpus,
		Start:   d.start,
		Uptime:  time.Since(d.start).Round(time.Second).String(),
		Store:   d.settings.Store.String(),
		Prefix:  string(d.settings.Prefix),
		Sync:    d.settings.Sync,
		Limits:  varzLimits{Requests: bridge.DefaultRequests, Bytes: bridge.DefaultBytes, Waiters: bridge.DefaultWaiters},
		NATS:    varzNATS{Status: nats.CONNECTING.String()},
	}
	if store := d.store.Load(); store != nil {
		v.StoreID = store.ID()
	}
	if nc := d.nc.Load(); nc != nil {
		stats := nc.Stats()
		v.Limits.MaxPayload = nc.MaxPayload()
		v.NATS = varzNATS{
			URL:        d.advertised(nc),
			Status:     nc.Status().String(),
			Reconnects: stats.Reconnects,
			InMsgs:     stats.InMsgs,
			OutMsgs:    stats.OutMsgs,
			InBytes:    stats.InBytes,
			OutBytes:   stats.OutBytes,
		}
	}
	if d.embedded != nil {
		v.NATS.Embedded, v.NATS.Clients = true, d.embedded.NumClients()
	}
	return v
}
