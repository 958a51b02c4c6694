package broker

import (
	"context"
	"math"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// enterLameDuck makes the server refuse new connections and announce its stop to its
// clients. pqd's own connection closes announced when it gets the announcement.
func enterLameDuck(ctx context.Context, srv *server.Server, announced <-chan struct{}) {
	go srv.LameDuckShutdown() // returns when the server is shut down
	select {
	case <-announced:
	case <-ctx.Done():
	}
}

// readPause is the time between looks at the bytes that clients have not read.
const readPause = 10 * time.Millisecond

// awaitRead waits until the server's buffers for clients are empty. When ctx ends first, it
// returns the number of clients whose buffers are not.
func awaitRead(ctx context.Context, srv *server.Server) (behind int, err error) {
	pause := time.NewTicker(readPause)
	defer pause.Stop()
	for {
		if behind, err = unread(srv); behind == 0 || err != nil {
			return behind, err
		}
		select {
		case <-pause.C:
		case <-ctx.Done():
			return behind, nil
		}
	}
}

// unread counts the connections whose buffers in the server are not empty, those to other servers included.
func unread(srv *server.Server) (n int, err error) {
	clients, err := srv.Connz(&server.ConnzOptions{Limit: math.MaxInt32})
	if err != nil {
		return 0, err
	}
	for _, c := range clients.Conns {
		if c.Pending > 0 {
			n++
		}
	}
	routes, err := srv.Routez(nil)
	if err != nil {
		return n, err
	}
	for _, r := range routes.Routes {
		if r.Pending > 0 {
			n++
		}
	}
	return n, nil
}
