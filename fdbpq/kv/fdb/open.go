//go:build fdb

package fdb

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	apple "github.com/apple/foundationdb/bindings/go/src/fdb"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// apiVersion is the version of the interface. It decides how client libraries of all
// versions behave.
const apiVersion = 730

// maxPrefix leaves room for the store's keys within FoundationDB's limit.
const maxPrefix = 1000

// openTimeout is how long Open waits for the cluster by default. FoundationDB answers in
// milliseconds, and takes a few seconds to recover from the loss of a process.
const openTimeout = 5 * time.Second

// Options of a store.
type Options struct {
	// Prefix is the beginning of all keys of the store in the cluster. Stores share a cluster without seeing each
	// other if neither of their prefixes begins with the other. Empty: the store owns the cluster.
	Prefix []byte

	// OpenTimeout is how long Open waits for the cluster to answer; 0: 5 s.
	OpenTimeout time.Duration
}

// DB is a store in a FoundationDB cluster.
type DB struct {
	connection *connection
	prefix     []byte

	mu       sync.Mutex
	closed   bool
	watches  map[*watch]struct{}
	active   sync.WaitGroup // transactions under way
	watching sync.WaitGroup // watches that have not ended

	commits, conflicts, unknown, refusedWatches atomic.Uint64
}

var _ kv.DB = (*DB)(nil)

// Metrics counts what happened since Open.
type Metrics struct {
	Commits        uint64 // transactions that committed writes or watches
	Conflicts      uint64 // runs of closures that were lost to another transaction
	Unknown        uint64 // commits whose result did not come back
	RefusedWatches uint64 // watches that ended at once because there were too many
	Watches        int    // watches now pending
}

// Metrics returns the counters as they are now.
func (db *DB) Metrics() Metrics {
	db.mu.Lock()
	watches := len(db.watches)
	db.mu.Unlock()
	return Metrics{
		Commits:        db.commits.Load(),
		Conflicts:      db.conflicts.Load(),
		Unknown:        db.unknown.Load(),
		RefusedWatches: db.refusedWatches.Load(),
		Watches:        watches,
	}
}

// Open opens a store in the cluster of a cluster file. An empty path means the file that
// FoundationDB's own tools would use.
//
// Open waits for an answer of the cluster. If none comes in time, it fails with an error
// that wraps kv.ErrUnavailable, and the caller may retry. A retry does not help after any
// other error.
func Open(clusterFile string, o Options) (*DB, error) {
	if len(o.Prefix) > maxPrefix {
		return nil, fmt.Errorf("kv/fdb: key prefix has %d bytes, expected %d at most", len(o.Prefix), maxPrefix)
	}
	if len(o.Prefix) > 0 && o.Prefix[0] == 0xff {
		return nil, errors.New("kv/fdb: key prefix begins with byte 255, where FoundationDB keeps its own keys")
	}
	if err := apple.APIVersion(apiVersion); err != nil {
		return nil, fmt.Errorf("kv/fdb: API version %d cannot be used: %w", apiVersion, err)
	}
	file, err := findClusterFile(clusterFile)
	if err != nil {
		return nil, err
	}
	c, err := connect(file.path)
	if err != nil {
		return nil, err
	}
	db := &DB{connection: c, prefix: bytes.Clone(o.Prefix), watches: map[*watch]struct{}{}}
	if o.OpenTimeout <= 0 {
		o.OpenTimeout = openTimeout
	}
	if err := db.probe(o.OpenTimeout); err != nil {
		db.Close()
		if code := code(err); refusedByClient(code) {
			return nil, fmt.Errorf("kv/fdb: open the cluster in %s: %w", file.path, apple.Error{Code: code})
		}
		return nil, fmt.Errorf("kv/fdb: no answer within %v from the cluster in %s (coordinators %s): "+
			"it is down, cannot be reached from here, or has no database yet, as fdbcli's status will tell: %w",
			o.OpenTimeout, file.path, file.coordinators, err)
	}
	return db, nil
}

// probe returns when the cluster has answered.
func (db *DB) probe(timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	return db.View(ctx, func(r kv.Reader) error {
		_, err := r.Get(nil)
		return err
	})
}

// Close waits for transactions under way, ends the watches and releases the
// connection.
func (db *DB) Close() error {
	db.mu.Lock()
	if db.closed {
		db.mu.Unlock()
		return kv.ErrClosed
	}
	db.closed = true
	db.mu.Unlock()

	db.active.Wait()
	db.cancelWatches()
	db.watching.Wait()
	db.connection.release()
	return nil
}

// enter counts a transaction as under way, unless the store is closed.
func (db *DB) enter() error {
	db.mu.Lock()
	defer db.mu.Unlock()
	if db.closed {
		return kv.ErrClosed
	}
	db.active.Add(1)
	return nil
}

// clusterFile is a file with the addresses of a cluster's coordinators.
type clusterFile struct {
	path         string // absolute
	coordinators string // separated by commas
}

const clusterFileForm = `one line such as "name:id@10.0.0.1:4500,10.0.0.2:4500"`

// findClusterFile reads a cluster file to find its mistakes. The client library reports only
// a number for a bad file, and nothing for a wrong path.
func findClusterFile(path string) (clusterFile, error) {
	if path == "" {
		path = defaultClusterFile()
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return clusterFile{}, fmt.Errorf("kv/fdb: path of the cluster file: %w", err)
	}
	content, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return clusterFile{}, fmt.Errorf("kv/fdb: no cluster file at %s: expected a copy of the one on the cluster's machines, %s", path, clusterFileForm)
	case err != nil:
		return clusterFile{}, fmt.Errorf("kv/fdb: read the cluster file: %w", err)
	}
	coordinators, ok := parseClusterFile(string(content))
	if !ok {
		return clusterFile{}, fmt.Errorf("kv/fdb: cluster file %s does not say where the cluster is: expected %s", path, clusterFileForm)
	}
	return clusterFile{path: path, coordinators: coordinators}, nil
}

// parseClusterFile returns the coordinators. It accepts more than the library, which
// parses the file again.
func parseClusterFile(content string) (coordinators string, ok bool) {
	for line := range strings.Lines(content) {
		line, _, _ = strings.Cut(line, "#")
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		name, coordinators, _ := strings.Cut(line, "@")
		return coordinators, strings.Contains(name, ":") && strings.Contains(coordinators, ":")
	}
	return "", false
}

// defaultClusterFile returns the library's default path.
func defaultClusterFile() string {
	if path := os.Getenv("FDB_CLUSTER_FILE"); path != "" {
		return path
	}
	if _, err := os.Stat("fdb.cluster"); err == nil {
		return "fdb.cluster"
	}
	return "/etc/foundationdb/fdb.cluster"
}

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
