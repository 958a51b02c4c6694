package broker

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"regexp"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// otherSecret notes nodes that have another PQ_CLUSTER_SECRET than this node. The servers of such nodes refuse each
// other several times a second, and their log lines name no secret.
type otherSecret struct {
	log *slog.Logger

	mu   sync.Mutex
	node string    // the last node that refused this node
	at   time.Time // when

	strange struct { // servers that this node refused, and that did not refuse it
		since, last time.Time
	}
}

// Lines of the server about a refusal: of this node by another, and of another by this node. The second line has no
// name of a node, but the port of a connection.
var (
	refusedBy = regexp.MustCompile(`^(\S+) - rid:\d+ - Route Error '(?i:authorization violation)'`)
	refusedIt = regexp.MustCompile(`^(\S+) - rid:\d+ - authentication error`)
	cutOff    = regexp.MustCompile(`^\S+ - rid:\d+ - Error flushing: `)
)

const (
	// refusalFor is how long a refusal counts: the servers try again every second.
	refusalFor = 5 * time.Second

	// strangeFor is how long a server has to be refused, without refusing this node, to count as one with another
	// secret.
	strangeFor = 3 * time.Second
)

// reads notes a line of the server's log, and reports whether it is about such a refusal.
func (o *otherSecret) reads(line string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := time.Now()
	known := now.Sub(o.at) <= refusalFor
	if by := refusedBy.FindStringSubmatch(line); by != nil {
		if !known {
			o.log.Error("another node has another secret: expected the same line in the file PQ_CLUSTER_SECRET of each node", "node", by[1])
		}
		o.node, o.at = by[1], now
		return true
	}
	it := refusedIt.FindStringSubmatch(line)
	if it == nil {
		return known && cutOff.MatchString(line)
	}
	s := &o.strange
	if now.Sub(s.last) > refusalFor {
		s.since = now
	}
	s.last = now
	if !s.since.IsZero() && now.Sub(s.since) > strangeFor && !known {
		s.since = time.Time{} // said
		o.log.Warn("refused a node without the secret in PQ_CLUSTER_SECRET", "from", it[1])
	}
	return true
}

// Refusing names the node that has refused this node just now, or returns nil.
func (o *otherSecret) refusing() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.node == "" || time.Since(o.at) > refusalFor {
		return nil
	}
	return fmt.Errorf("the node at %s has another secret than this one, and none is connected: expected the same line in the file PQ_CLUSTER_SECRET of each node", o.node)
}

// closeClients closes the connections of all clients from outside this process.
func closeClients(srv *server.Server) (err error) {
	list, err := srv.Connz(&server.ConnzOptions{Limit: math.MaxInt32})
	if err != nil {
		return err
	}
	for _, c := range list.Conns {
		if c.IP != "" {
			err = errors.Join(err, srv.DisconnectClientByID(c.Cid))
		}
	}
	return err
}
