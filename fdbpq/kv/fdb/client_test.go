//go:build fdb

package fdb_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	apple "github.com/apple/foundationdb/bindings/go/src/fdb"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/fdbpq/kv/fdb"
	"github.com/pqbridge/pqbridge/internal/testkit/fdbtest"
)

// The client library reads its options when a process opens its first cluster,
// so what depends on them is tested in a process of its own: this test binary
// again.

// clientCluster is the variable that tells TestClient which cluster to use.
const clientCluster = "PQ_TEST_CLUSTER_FILE"

// again runs tests of this binary in another process and returns their output.
func again(t *testing.T, tests string, env ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^("+tests+")$", "-test.v", "-test.count=1")
	cmd.Env = append(os.Environ(), env...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	return out.String(), err
}

// TestClient is what a process does that uses a cluster; others run it.
func TestClient(t *testing.T) {
	file := os.Getenv(clientCluster)
	if file == "" {
		t.Skip("runs in a process of its own only")
	}
	db, err := fdb.Open(file, fdb.Options{Prefix: []byte("client/"), OpenTimeout: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	update(t, db, func(tx kv.Tx) error { tx.Set([]byte("k"), []byte("v")); return nil })
	if got, want := rows(t, db), `["k"="v"]`; got != want {
		t.Errorf("the store has the rows %s, expected %s", got, want)
	}
}

// TestTLS: the library's own variables are all that a cluster needs that speaks
// TLS only.
func TestTLS(t *testing.T) {
	cluster := fdbtest.NewTLS(t, 1)
	if out, err := again(t, "TestClient", append(cluster.Env, clientCluster+"="+cluster.File)...); err != nil {
		t.Errorf("with certificates: %v\n%s", err, out)
	}
	// Without them this process is turned away.
	db, err := fdb.Open(cluster.File, fdb.Options{OpenTimeout: 2 * time.Second})
	if err == nil {
		db.Close()
		t.Fatal("a process without certificates opened the cluster")
	}
	if !errors.Is(err, kv.ErrUnavailable) {
		t.Errorf("a process without certificates got error %v, expected ErrUnavailable", err)
	}
}

// TestExternalClient repeats what is delicate with the library behind the layer
// that lets a process hold libraries of several versions, as operators have it
// while they upgrade a cluster.
func TestExternalClient(t *testing.T) {
	env := externalClient(t)
	if out, err := again(t, "TestOpenUnreachable|TestOpenRefuses", env); err != nil {
		t.Errorf("without a cluster: %v\n%s", err, out)
	}
	cluster := fdbtest.Shared(t)
	out, err := again(t, "TestClient|TestPaused|TestPausedCommit", env, clientCluster+"="+cluster.File)
	if err != nil {
		t.Errorf("with a cluster: %v\n%s", err, out)
	}
}

// externalClient returns a variable that has the library loaded a second time.
func externalClient(t *testing.T) string {
	t.Helper()
	library, err := clientLibrary()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.Symlink(library, filepath.Join(dir, "libfdb_c_external.so")); err != nil {
		t.Fatal(err)
	}
	return "FDB_NETWORK_OPTION_EXTERNAL_CLIENT_DIRECTORY=" + dir
}

// clientLibrary returns the path of the library that this process runs with.
func clientLibrary() (string, error) {
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return "", err
	}
	path := regexp.MustCompile(`/\S*libfdb_c\S*`).Find(maps)
	if path == nil {
		return "", fmt.Errorf("no libfdb_c among the files of this process")
	}
	return string(path), nil
}

// TestEarlierAPIVersion is what a program does that has chosen another API
// version before; TestAPIVersion runs it.
func TestEarlierAPIVersion(t *testing.T) {
	if os.Getenv(clientCluster) == "" {
		t.Skip("runs in a process of its own only")
	}
	apple.MustAPIVersion(720)
	db, err := fdb.Open(os.Getenv(clientCluster), fdb.Options{})
	if err == nil {
		db.Close()
		t.Fatal("Open succeeded with an API version that is not its own")
	}
	if errors.Is(err, kv.ErrUnavailable) || !strings.Contains(err.Error(), "API version 730") {
		t.Errorf("the error does not say which API version is needed, or looks as if waiting could help: %v", err)
	}
}

// TestAPIVersion: where the API version cannot be had, the error says which.
func TestAPIVersion(t *testing.T) {
	if out, err := again(t, "TestEarlierAPIVersion", clientCluster+"="+fdbtest.Shared(t).File); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
