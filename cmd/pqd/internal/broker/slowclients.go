package broker

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"math"
	"net"
	"net/netip"
	"runtime/metrics"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/prometheus/client_golang/prometheus"
)

const (
	// unreadMost is how many bytes the embedded server may hold for its clients: four
	// times unreadEach, so that up to four clients are never closed.
	unreadMost = 256 << 20

	// unreadEach is how many bytes it may hold for one client that receives slowly, while
	// it holds more than the budget for all.
	unreadEach = server.MAX_PENDING_SIZE

	// bridgePart times the budget of all clients is the default of max_pending. The server
	// has one max_pending for all connections. The bridge's own connection needs that
	// much, because a busy machine may give the bridge no processor for a while.
	bridgePart = 2

	// unreadPart: unreadMost is lowered to this part of GOMEMLIMIT.
	unreadPart = 4

	// lookEvery is the time between looks at the connections.
	lookEvery = 100 * time.Millisecond

	// lookPart bounds the cost of looks: the pause between two is lookPart times as long as
	// a look. With 10,000 connections a look takes 20 ms.
	lookPart = 20

	// socketsPart is the part of the budget beyond which slowClients also looks at sockets.
	// When the budget is exceeded, there are earlier looks to compare with.
	socketsPart = 4

	// stuckLooks is after how many looks without progress a connection may be closed.
	stuckLooks = 3

	// blindLooks replaces stuckLooks where pqd cannot see how much the client has received: by websocket, for leaf
	// nodes, and on other systems than Linux. There progress shows only when the server counts it, after up to 64
	// MiB.
	blindLooks = 20
)

// unreadBudget is how many bytes the embedded server may hold for all its clients.
func unreadBudget(memoryLimit int64) int64 { return min(unreadMost, memoryLimit/unreadPart) }

// bridgePending is the default of max_pending: how many bytes the server may hold for one
// connection.
func bridgePending(memoryLimit int64) int64 { return bridgePart * unreadBudget(memoryLimit) }

// slowClients closes connections whose clients do not read while the embedded server holds more than a budget for
// all its clients. The server itself has only a limit for each connection. slowClients never closes pqd's own
// connections, nor a connection that has received bytes in the last looks and has at most unreadEach to receive.
type slowClients struct {
	server *server.Server
	own    []func() (uint64, error) // pqd's own connections
	budget int64
	log    *slog.Logger
	closed prometheus.Counter

	seen map[uint64]backlog // at the last look
}

func newSlowClients(srv *server.Server, own []func() (uint64, error), budget int64, log *slog.Logger) *slowClients {
	return &slowClients{
		server: srv, own: own, budget: budget, log: log,
		closed: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "pq_slow_clients_total",
			Help: "Connections that pqd closed because their clients did not read, when the embedded NATS server held too much for all clients.",
		}),
	}
}

// backlog is the state of a connection's buffer in the server.
type backlog struct {
	id           uint64
	client       netip.AddrPort // the zero value if no socket of the server leads there
	pending      int64          // bytes to send
	sent         int64          // bytes sent; falls a little when pending grows
	acknowledged uint64         // bytes that the client's machine has received; 0 if unknown
	stuck        int            // looks without progress until now
}

// follow returns b with the number of looks without progress since before.
func (b backlog) follow(before backlog, known bool) backlog {
	if known && b.pending >= before.pending && b.sent <= before.sent && b.acknowledged <= before.acknowledged {
		b.stuck = before.stuck + 1
	}
	return b
}

// hangs reports whether the client reads nothing, or too slowly.
func (b backlog) hangs() bool {
	if b.pending > unreadEach {
		return true
	}
	if b.acknowledged == 0 {
		return b.stuck >= blindLooks
	}
	return b.stuck >= stuckLooks
}

// excess returns the connections to close, so that the others are within the budget. It
// takes the hanging ones with the most bytes first.
func excess(all []backlog, own map[uint64]bool, budget int64) (chosen []backlog) {
	sum := int64(0)
	for _, b := range all {
		sum += b.pending
	}
	hanging := slices.DeleteFunc(slices.Clone(all), func(b backlog) bool { return own[b.id] || !b.hangs() })
	slices.SortFunc(hanging, func(a, b backlog) int { return cmp.Compare(b.pending, a.pending) })
	for _, b := range hanging {
		if sum <= budget {
			break
		}
		chosen = append(chosen, b)
		sum -= b.pending
	}
	return chosen
}

// Watch looks until ctx ends.
func (s *slowClients) Watch(ctx context.Context) {
	pause := time.NewTimer(lookEvery)
	defer pause.Stop()
	// Closing a connection may wait for its writer.
	var closing sync.WaitGroup
	defer closing.Wait()
	for {
		select {
		case <-ctx.Done():
			return
		case <-pause.C:
		}
		start := time.Now()
		if heapInUse() <= s.budget { // bytes that clients have not read are part of the heap
			s.seen = nil
		} else if err := s.look(&closing); err != nil {
			s.log.Warn("looking for clients that do not read failed", "error", err)
		}
		pause.Reset(max(lookEvery, lookPart*time.Since(start)))
	}
}

// look looks at all connections and closes the connections in excess.
func (s *slowClients) look(closing *sync.WaitGroup) error {
	own := make(map[uint64]bool)
	for _, ask := range s.own {
		id, err := ask()
		if err != nil {
			return fmt.Errorf("ask for pqd's own connection: %w", err)
		}
		own[id] = true
	}
	// The server does not list connections that are being closed.
	list, err := s.server.Connz(&server.ConnzOptions{Username: true, Limit: math.MaxInt32})
	if err != nil {
		return fmt.Errorf("list connections: %w", err)
	}
	var all []backlog
	named, sum := make(map[uint64]*server.ConnInfo), int64(0)
	for _, c := range list.Conns {
		if c.Pending > 0 {
			b := backlog{id: c.Cid, pending: int64(c.Pending), sent: c.OutBytes - int64(c.Pending)}
			// Other types may have the address that a proxy reported.
			if address, err := netip.ParseAddr(c.IP); err == nil && c.Type == "nats" {
				b.client = netip.AddrPortFrom(address.Unmap(), uint16(c.Port))
			}
			all, named[b.id] = append(all, b), c
			sum += b.pending
		}
	}
	var found sockets
	if sum > s.budget/socketsPart {
		if found, err = findSockets(s.port()); err != nil {
			return err
		}
	}
	seen := make(map[uint64]backlog, len(all))
	for i, b := range all {
		b.acknowledged = found.acknowledged(b.client)
		before, known := s.seen[b.id]
		all[i] = b.follow(before, known)
		seen[b.id] = all[i]
	}
	s.seen = seen
	for _, b := range excess(all, own, s.budget) {
		c := named[b.id]
		s.log.Warn("closing the connection of a client that does not read: clients have left too much unread in all",
			"name", c.Name, "user", c.AuthorizedUser, "address", net.JoinHostPort(c.IP, strconv.Itoa(c.Port)), "bytes", b.pending, "budget", s.budget)
		s.closed.Inc()
		closing.Go(func() {
			_ = s.server.DisconnectClientByID(b.id) // fails if it has gone meanwhile
			found.shut(b.client)                    // otherwise a blocked write keeps the memory
		})
	}
	return nil
}

// port is the port for clients.
func (s *slowClients) port() uint16 {
	if address, is := s.server.Addr().(*net.TCPAddr); is {
		return uint16(address.Port)
	}
	return 0
}

// heapInUse is how many bytes objects take on Go's heap.
func heapInUse() int64 {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(sample)
	return int64(sample[0].Value.Uint64())
}
