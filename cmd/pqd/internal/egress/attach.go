//go:build !noegress

package egress

import (
	"errors"
	"fmt"
	"net"
	"reflect"
	"sync"
	"unsafe"

	"github.com/nats-io/nats-server/v2/server"
)

// route is a connection of nats-server to another one. Its type there, client, is not exported.
type route struct{ _ byte }

// If nats-server renames one of the methods, linking fails.

//go:linkname forEachNonPerAccountRoute github.com/nats-io/nats-server/v2/server.(*Server).forEachNonPerAccountRoute
func forEachNonPerAccountRoute(s *server.Server, do func(*route))

//go:linkname flushOutbound github.com/nats-io/nats-server/v2/server.(*client).flushOutbound
func flushOutbound(r *route) bool

// places are where nats-server has what this package needs.
type places struct {
	routes     uintptr // in a server: the lock of its routes
	lock       uintptr // in a route, as all below: the lock
	conn       uintptr
	pending    uintptr // how many bytes the server holds for it
	written    uintptr // bytes of which a part was written
	compressor uintptr
}

// findPlaces finds the places by the names and the types of what is there.
var findPlaces = sync.OnceValues(func() (places, error) {
	return placesIn(reflect.TypeFor[server.Server](), reflect.TypeOf((*server.Server).GetClient).Out(0).Elem())
})

func placesIn(srv, client reflect.Type) (p places, err error) {
	find := func(in reflect.Type, name, kind string) reflect.StructField {
		var f reflect.StructField
		if in != nil && in.Kind() == reflect.Struct {
			f, _ = in.FieldByName(name)
		}
		if f.Type == nil || f.Type.String() != kind || len(f.Index) != 1 {
			err = errors.Join(err, fmt.Errorf("%s is no %s", name, kind))
		}
		return f
	}
	out := find(client, "out", "server.outbound")
	p = places{
		routes:     find(srv, "mu", "sync.RWMutex").Offset,
		lock:       find(client, "mu", "sync.RWMutex").Offset,
		conn:       find(client, "nc", "net.Conn").Offset,
		pending:    out.Offset + find(out.Type, "pb", "int64").Offset,
		written:    out.Offset + find(out.Type, "wnb", "net.Buffers").Offset,
		compressor: out.Offset + find(out.Type, "cw", "*s2.Writer").Offset,
	}
	return p, err
}

// Check says why routes of this nats-server get no filter, or nil.
func Check() error {
	if _, err := findPlaces(); err != nil {
		return fmt.Errorf("nats-server %s: %w", server.VERSION, err)
	}
	return nil
}

// at is what an object has at a place.
func at[T any](object unsafe.Pointer, place uintptr) *T { return (*T)(unsafe.Add(object, place)) }

// attach replaces the connections of all routes without an account of their own. filter makes a connection of another one
// and of what tells how many bytes the server holds for it; nil: it stays. filter may be called with what it has made.
func attach(srv *server.Server, filter func(nc net.Conn, held func() int64) net.Conn) {
	p, err := findPlaces()
	if err != nil {
		return
	}
	lock := at[sync.RWMutex](unsafe.Pointer(srv), p.routes)
	var all []*route
	lock.RLock()
	forEachNonPerAccountRoute(srv, func(r *route) { all = append(all, r) })
	lock.RUnlock()
	for _, r := range all {
		attachTo(r, p, filter)
	}
}

// attachTo replaces the connection of a route. What is written there next has to begin with a whole message, so a route
// to which the server writes right now keeps its connection.
func attachTo(r *route, p places, filter func(nc net.Conn, held func() int64) net.Conn) {
	object := unsafe.Pointer(r)
	lock, nc, pending := at[sync.RWMutex](object, p.lock), at[net.Conn](object, p.conn), at[int64](object, p.pending)
	lock.Lock()
	defer lock.Unlock()
	if *nc == nil || *at[unsafe.Pointer](object, p.compressor) != nil {
		return
	}
	made := filter(*nc, func() int64 {
		lock.RLock()
		defer lock.RUnlock()
		return *pending
	})
	// flushOutbound writes all that the server holds, unless another goroutine does that now. Meanwhile the route may have been closed.
	if made == nil || !flushOutbound(r) || *nc == nil || len(*at[net.Buffers](object, p.written)) > 0 {
		return
	}
	*nc = made
}
