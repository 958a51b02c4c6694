package egress

import (
	"context"
	"log/slog"
	"net"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// Filter is on all routes of a server that have no account of their own.
type Filter struct {
	Server   *server.Server
	Requests Requests
	Most     int64       // how many bytes the server may hold for a route before large requests are replaced
	Sheds    func() bool // whether the active node refuses large messages unread, as far as this node knows
	Log      *slog.Logger

	logged atomic.Int64 // when it was logged that requests are replaced, the last time; 0: never
}

// logEvery is the shortest time between two log lines about replaced requests.
const logEvery = time.Minute

// lookEvery is the time between looks for new routes.
const lookEvery = 20 * time.Millisecond

// Watch puts the filter on each route until ctx ends.
func (f *Filter) Watch(ctx context.Context) {
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	for {
		attach(f.Server, f.on)
		select {
		case <-look.C:
		case <-ctx.Done():
			return
		}
	}
}

// on puts the filter on a connection for which the server holds some bytes. It returns nil if it is there.
func (f *Filter) on(nc net.Conn, held func() int64) net.Conn {
	if _, is := nc.(*routeConn); is {
		return nil
	}
	return &routeConn{Conn: nc, requests: &f.Requests, sheds: func(written int64) bool { return f.replaces(held, written) }}
}

// replaces reports whether to replace a large request, behind which the server holds all but what is written.
func (f *Filter) replaces(held func() int64, written int64) bool {
	if !f.Sheds() && held()-written <= f.Most {
		return false
	}
	now, last := time.Now().UnixNano(), f.logged.Load()
	if (last == 0 || now-last > int64(logEvery)) && f.logged.CompareAndSwap(last, now) {
		f.Log.Warn("shedding load: more large requests come in here than reach the active node in time; " +
			"for moments they go on without their content, and it refuses them")
	}
	return true
}
