//go:build fdb

package fdb

import (
	"fmt"
	"sync"

	apple "github.com/apple/foundationdb/bindings/go/src/fdb"
)

// maxWatches bounds the watches of a connection. A process with waiting pops has one for
// each queue, so the library's default of 10,000 would limit the number of queues. A watch
// needs a few hundred bytes here and in a storage server, which has a limit of its own.
const maxWatches = 100_000

// connections has the process's connections by the path of their cluster file. Stores in one cluster share a
// connection, and the client library runs one network thread for all. The lock also guards the bindings' table of
// databases, which has no lock of its own.
var connections = struct {
	sync.Mutex
	open map[string]*connection
}{open: map[string]*connection{}}

// connection is a connection to a cluster.
type connection struct {
	path     string
	database apple.Database
	users    int
}

// connect returns the connection for a cluster file. It does not wait for the
// cluster.
func connect(path string) (*connection, error) {
	connections.Lock()
	defer connections.Unlock()
	if c := connections.open[path]; c != nil {
		c.users++
		return c, nil
	}
	database, err := apple.OpenDatabase(path)
	if err != nil {
		return nil, fmt.Errorf("kv/fdb: open the cluster in %s: %w", path, err)
	}
	if err := database.Options().SetMaxWatches(maxWatches); err != nil {
		database.Close()
		return nil, fmt.Errorf("kv/fdb: allow %d watches: %w", maxWatches, err)
	}
	c := &connection{path: path, database: database, users: 1}
	connections.open[path] = c
	return c, nil
}

// release releases the connection; the last user closes it.
func (c *connection) release() {
	connections.Lock()
	defer connections.Unlock()
	if c.users--; c.users == 0 {
		delete(connections.open, c.path)
		c.database.Close()
	}
}
