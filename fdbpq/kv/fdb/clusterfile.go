//go:build fdb

package fdb

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

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
