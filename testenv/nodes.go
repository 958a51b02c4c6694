package testenv

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Nodes are pqd processes that keep one store together, with PQ_CLUSTER.
type Nodes struct {
	All []*Process
}

// NewNodes starts three nodes and waits until all are ready. When the test ends, the
// store of each is checked.
func NewNodes(t testing.TB, env ...string) *Nodes {
	t.Helper()
	return NewNodesAt(t, func([]string) []string { return env })
}

// NewNodesAt is NewNodes with settings that depend on the addresses of the nodes.
func NewNodesAt(t testing.TB, env func(hosts []string) []string) *Nodes {
	t.Helper()
	n := newNodes(t, env)
	n.begin(t)
	return n
}

// begin starts nodes with a directory of their own each.
func (n *Nodes) begin(t testing.TB) {
	t.Helper()
	var dirs []string
	for _, p := range n.All {
		dirs = append(dirs, filepath.Join(p.work, "data"))
	}
	n.StartIn(t, dirs)
}

// NewNodesIn is NewNodes with the data of each node in one of these directories.
func NewNodesIn(t testing.TB, dirs []string, env ...string) *Nodes {
	t.Helper()
	n := newNodes(t, func([]string) []string { return env })
	n.StartIn(t, dirs)
	return n
}

func newNodes(t testing.TB, env func(hosts []string) []string) *Nodes {
	t.Helper()
	hosts := freeHosts(t, clusterSize)
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte(rand.Text()), 0o600); err != nil {
		t.Fatal(err)
	}
	n, common := &Nodes{}, env(hosts)
	for _, host := range hosts {
		// A node that is started again needs its port again, which no connection of another program has at an address of its own.
		p := newProcess(t)
		p.env = append(p.env, "PQ_STORE=", "PQ_CLUSTER="+strings.Join(hosts, ","), "PQ_NODE="+host, "PQ_CLUSTER_SECRET="+secret, "PQ_LISTEN="+host+":0")
		p.env = append(p.env, common...)
		n.All = append(n.All, p)
	}
	return n
}

// StartIn starts nodes that do not run with their data in these directories, and waits until
// all are ready.
func (n *Nodes) StartIn(t testing.TB, dirs []string) {
	t.Helper()
	for i, p := range n.All {
		p.Move(dirs[i])
		p.launch(t)
	}
	for _, p := range n.All {
		p.AwaitReady(t)
	}
}

// Move changes the directory of a node that does not run, from its next start on.
func (p *Process) Move(dir string) {
	p.Dir = filepath.Join(dir, "copy-pq")
	p.Change("PQ_DATA=" + dir)
}

// Change gives a process that does not run other settings from its next start on.
func (p *Process) Change(env ...string) { p.env = append(p.env, env...) }

// Successor is another machine for a node that has ended: it begins with only the node's settings and an address of
// its own, which replaces the lost one in those settings. It is one of the nodes from then on.
func (n *Nodes) Successor(t testing.TB, lost *Process) *Process {
	t.Helper()
	address := freeHosts(t, 1)[0]
	p := newProcess(t)
	for _, setting := range lost.env {
		name, value, _ := strings.Cut(setting, "=")
		switch name {
		case "PQ_CLUSTER", "PQ_NODE":
			p.env = append(p.env, name+"="+strings.ReplaceAll(value, lost.host(), address))
		case "PQ_DATA", "PQ_HTTP", "PQ_LISTEN":
		default:
			p.env = append(p.env, setting)
		}
	}
	p.env = append(p.env, "PQ_LISTEN="+address+":0", "PQ_HTTP=127.0.0.1:0")
	p.Move(filepath.Join(p.work, "data"))
	for i := range n.All {
		if n.All[i] == lost {
			n.All[i] = p
		}
	}
	return p
}

// Data is the directory in which a node keeps everything.
func (p *Process) Data() string { return filepath.Dir(p.Dir) }

// Setting is the value of a variable of the process.
func (p *Process) Setting(name string) (value string) {
	for _, setting := range p.env {
		if v, is := strings.CutPrefix(setting, name+"="); is {
			value = v
		}
	}
	return value
}

// host is the address of a node for others.
func (p *Process) host() string { return p.Setting("PQ_NODE") }

// Node is the name that a node has by its address.
func (p *Process) Node() string { return strings.ReplaceAll(p.host(), ".", "-") }

// URL has the addresses of all nodes, for clients that can use any of them.
func (n *Nodes) URL() string {
	var urls []string
	for _, p := range n.All {
		urls = append(urls, p.URL)
	}
	return strings.Join(urls, ",")
}

// Active waits until a node serves that is not in but, and returns it.
func (n *Nodes) Active(t testing.TB, but ...*Process) (active *Process) {
	t.Helper()
	Await(t, "a node is active", func() bool {
		for _, p := range n.All {
			other := true
			for _, b := range but {
				other = other && b != p
			}
			if other && !isClosed(p.exited) && p.role() == "active" {
				active = p
				return true
			}
		}
		return false
	})
	return active
}

// Page is the body of a page of pqd's HTTP server, or nothing if it does not answer.
func (p *Process) Page(t testing.TB, path string) string {
	t.Helper()
	response, err := (&http.Client{Timeout: Times(10 * time.Second)}).Get(p.HTTP + path)
	if err != nil {
		return ""
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return ""
	}
	return string(body)
}

// role is the role that the node reports, "" if it is not ready.
func (p *Process) role() string {
	response, err := (&http.Client{Timeout: Attempt()}).Get(p.HTTP + "/readyz")
	if err != nil {
		return ""
	}
	defer response.Body.Close()
	var page struct{ Role string }
	if json.NewDecoder(response.Body).Decode(&page) != nil || response.StatusCode != http.StatusOK {
		return ""
	}
	return page.Role
}

// freeHosts returns unused loopback addresses. The nodes have to know each other's addresses
// before they start. Only Linux has more than one loopback address by default.
func freeHosts(t testing.TB, count int) (hosts []string) {
	t.Helper()
	random := make([]byte, 3)
	for len(hosts) < count {
		_, _ = rand.Read(random) // it never fails
		host := fmt.Sprintf("127.%d.%d.%d", 1+random[0]%254, random[1], 1+random[2]%254)
		l, err := net.Listen("tcp", host+":0")
		if err != nil {
			t.Skipf("this machine has no other loopback addresses: %v", err)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		hosts = append(hosts, host)
	}
	return hosts
}
