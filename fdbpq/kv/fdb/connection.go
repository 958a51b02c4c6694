//go:build fdb

package fdb

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	apple "github.com/apple/foundationdb/bindings/go/src/fdb"
)

// maxWatches bounds the watches of a connection. A process with waiting pops has one for
// each queue, so the library's default of 10,000 would limit the number of queues. A watch
// needs a few hundred bytes here and in a storage server, which has a limit of its own.
const maxWatches = 100_000

// connections has the process's connections by the path of their cluster file. Stores in
// one cluster share a connection, and the client library runs one network thread for all.
// The lock also guards the bindings' table of databases, which has none.
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

// clusterFile is a file that says where a cluster's coordinators are.
type clusterFile struct {
	path         string // absolute
	coordinators string // separated by commas
}

const clusterFileForm = `one line such as "name:id@10.0.0.1:4500,10.0.0.2:4500"`

// findClusterFile reads a cluster file, to report errors that say what is wrong. The
// client library reports only a number for a bad file, and nothing for a wrong path.
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
