//go:build fdb

package fdb

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

func TestParseClusterFile(t *testing.T) {
	tests := []struct {
		content      string
		coordinators string
		ok           bool
	}{
		{"name:id@10.0.0.1:4500\n", "10.0.0.1:4500", true},
		{"# a comment\n\n  name:id@10.0.0.1:4500,[::1]:4500:tls  # another\n", "10.0.0.1:4500,[::1]:4500:tls", true},
		{"name:id@fdb.example:4500", "fdb.example:4500", true},
		{"", "", false},
		{"# nothing but a comment\n", "", false},
		{"10.0.0.1:4500\n", "", false},
		{"name:id@\n", "", false},
		{"name@10.0.0.1:4500\n", "", false},
	}
	for _, test := range tests {
		coordinators, ok := parseClusterFile(test.content)
		if ok != test.ok || ok && coordinators != test.coordinators {
			t.Errorf("parseClusterFile(%q) = %q, %t; expected %q, %t", test.content, coordinators, ok, test.coordinators, test.ok)
		}
	}
}

func TestDefaultClusterFile(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv("FDB_CLUSTER_FILE", "")
	if got := defaultClusterFile(); got != "/etc/foundationdb/fdb.cluster" {
		t.Errorf("without any sign the cluster file is %s", got)
	}
	writeFile(t, "fdb.cluster", "name:id@127.0.0.1:1")
	if got := defaultClusterFile(); got != "fdb.cluster" {
		t.Errorf("with a file in the directory the cluster file is %s", got)
	}
	t.Setenv("FDB_CLUSTER_FILE", "/elsewhere")
	if got := defaultClusterFile(); got != "/elsewhere" {
		t.Errorf("with the variable the cluster file is %s", got)
	}
}

// TestOpenRefuses: a mistake is reported at once and by name, and is no outage of a
// cluster.
func TestOpenRefuses(t *testing.T) {
	dir := t.TempDir()
	good := filepath.Join(dir, "good")
	writeFile(t, good, "name:id@127.0.0.1:1\n")
	nonsense := filepath.Join(dir, "nonsense")
	writeFile(t, nonsense, "127.0.0.1:4500\n")
	badAddress := filepath.Join(dir, "badaddress")
	writeFile(t, badAddress, "name:id@127.0.0.1:port\n")
	tests := []struct {
		name string
		file string
		o    Options
		says []string
	}{
		{"no cluster file", filepath.Join(dir, "missing"), Options{}, []string{"no cluster file at " + dir + "/missing", "name:id@"}},
		{"a directory", dir, Options{}, []string{"read the cluster file", dir}},
		{"nonsense", nonsense, Options{}, []string{nonsense, "name:id@"}},
		{"a bad address", badAddress, Options{}, []string{badAddress}},
		{"the system's keys", good, Options{Prefix: []byte("\xff/mine")}, []string{"255"}},
		{"a long prefix", good, Options{Prefix: bytes.Repeat([]byte("p"), maxPrefix+1)}, []string{"1001 bytes", "1000"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			db, err := Open(test.file, test.o)
			if err == nil {
				db.Close()
				t.Fatal("Open succeeded")
			}
			if errors.Is(err, kv.ErrUnavailable) {
				t.Errorf("the error looks as if waiting could help: %v", err)
			}
			for _, text := range test.says {
				if !strings.Contains(err.Error(), text) {
					t.Errorf("the error does not say %q: %v", text, err)
				}
			}
		})
	}
}

// TestOpenUnreachable: a cluster that does not answer is not waited for longer
// than asked, whether its address refuses or swallows connections.
func TestOpenUnreachable(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	refusing, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	refusing.Close()
	for name, address := range map[string]string{"silent": silent.Addr().String(), "refusing": refusing.Addr().String()} {
		file := filepath.Join(t.TempDir(), "fdb.cluster")
		writeFile(t, file, "name:id@"+address+"\n")
		begin := time.Now()
		db, err := Open(file, Options{OpenTimeout: 100 * time.Millisecond})
		if err == nil {
			db.Close()
			t.Fatalf("%s: Open succeeded", name)
		}
		if !errors.Is(err, kv.ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: got error %v, expected one that is both ErrUnavailable and DeadlineExceeded", name, err)
		}
		for _, text := range []string{file, address, "100ms"} {
			if !strings.Contains(err.Error(), text) {
				t.Errorf("%s: the error does not say %q: %v", name, text, err)
			}
		}
		if took := time.Since(begin); took > 10*time.Second {
			t.Errorf("%s: Open took %v", name, took)
		}
	}
	connections.Lock()
	defer connections.Unlock()
	if n := len(connections.open); n > 0 {
		t.Errorf("%d connections were left open", n)
	}
}

func writeFile(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}
