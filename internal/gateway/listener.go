package gateway

import (
	"net"
	"sync"
)

// maxConns are enough for all requests and streams that a gateway may have, and for health checks.
const maxConns = 1024

// Limit returns a listener that at once closes connections beyond its limit, half of which are for one address: so
// no address takes all descriptors of the process, or keeps the others out.
func Limit(l net.Listener) net.Listener { return limit(l, maxConns) }

func limit(l net.Listener, most int64) net.Listener {
	return &limited{Listener: l, conns: newPlaces("connections", most)}
}

type limited struct {
	net.Listener
	conns *places
}

func (l *limited) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		leave, why := l.conns.enter(sourceOf(conn.RemoteAddr().String()))
		if why == nil {
			return &placed{Conn: conn, leave: sync.OnceFunc(leave)}, nil
		}
		_ = conn.Close() // nothing was sent
	}
}

// placed is a connection with a place.
type placed struct {
	net.Conn
	leave func()
}

func (c *placed) Close() error {
	defer c.leave()
	return c.Conn.Close()
}
