//go:build fdb

package fdbtest

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/internal/testkit/patience"
)

// requireFDB is the variable that makes a missing fdbserver a failure. Its value may be the version of fdbserver: go test
// takes a result from its cache only for the same value.
const requireFDB = "PQ_REQUIRE_FDB"

// Cluster is a throw-away FoundationDB cluster: real servers on 127.0.0.1,
// on ports that were free, with a directory that goes when they go. They never
// outlive the test process, however that ends.
type Cluster struct {
	File      string   // the cluster file
	Env       []string // what clients need in their environment
	Processes []*Process

	dir   string
	leash *leash
}

// shared is the cluster of all tests of the process that do it no harm.
var shared struct {
	sync.Mutex
	cluster *Cluster
}

// Shared returns a cluster of one process that all tests of the process share,
// each under a prefix of its own. The test is skipped where there is no
// fdbserver, unless the variable PQ_REQUIRE_FDB is set: then it fails.
func Shared(t testing.TB) *Cluster {
	t.Helper()
	programs := find(t)
	shared.Lock()
	defer shared.Unlock()
	if shared.cluster == nil {
		c, err := start(programs, config{processes: 1})
		if err != nil {
			t.Fatal(err)
		}
		// There is no event at the end of the last test; the leash has one when the
		// process ends.
		shared.cluster = c
	}
	return shared.cluster
}

// prefixes counts the stores that tests of this process made room for.
var prefixes atomic.Uint64

// Prefix returns an unused key prefix.
func Prefix() []byte { return fmt.Appendf(nil, "test-%08d/", prefixes.Add(1)) }

// Setting is the setting of a pqd for a new store on the cluster, which may have other stores, too.
func (c *Cluster) Setting() string {
	return fmt.Sprintf("PQ_STORE=fdb:%s?prefix=%s", c.File, Prefix())
}

// New returns a cluster for this test alone, which may harm it. From three processes on every row and every log
// entry has two copies (redundancy mode double), so that the cluster outlives the loss of any one. The arguments
// are for all servers.
func New(t testing.TB, processes int, args ...string) *Cluster {
	t.Helper()
	return own(t, config{processes: processes, args: args})
}

// NewTLS is New for a cluster that speaks only TLS.
func NewTLS(t testing.TB, processes int) *Cluster {
	t.Helper()
	return own(t, config{processes: processes, tls: true})
}

func own(t testing.TB, o config) *Cluster {
	t.Helper()
	c, err := start(find(t), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.remove)
	return c
}

// Pause keeps all processes from running, until Resume. Their connections stay
// open, so clients do not notice.
func (c *Cluster) Pause(t testing.TB) {
	t.Helper()
	for _, p := range c.Processes {
		p.Pause(t)
	}
}

// Resume ends Pause.
func (c *Cluster) Resume(t testing.TB) {
	t.Helper()
	for _, p := range c.Processes {
		p.Resume(t)
	}
}

// AwaitHealthy waits until every row has all its copies.
func (c *Cluster) AwaitHealthy(t testing.TB) {
	t.Helper()
	if err := c.await(find(t), healthy); err != nil {
		t.Fatal(err)
	}
}

// tools are the programs that a cluster needs.
type tools struct{ server, cli string }

var sayOnce sync.Once

func find(t testing.TB) tools {
	t.Helper()
	required := os.Getenv(requireFDB) != ""
	server, err := exec.LookPath("fdbserver")
	if err == nil {
		var cli string
		if cli, err = exec.LookPath("fdbcli"); err == nil {
			return tools{server, cli}
		}
	}
	if required {
		t.Fatalf("FoundationDB's programs are required by %s: %v", requireFDB, err)
	}
	sayOnce.Do(func() {
		fmt.Fprintf(os.Stderr, "\n*** NOT TESTED ON FOUNDATIONDB: %v ***\n\n", err)
	})
	t.Skipf("not tested on FoundationDB: %v", err)
	return tools{}
}

// config is the configuration of a cluster.
type config struct {
	processes int
	tls       bool
	args      []string
}

func start(programs tools, o config) (_ *Cluster, err error) {
	dir, err := os.MkdirTemp("", "pqbridge-fdb-")
	if err != nil {
		return nil, err
	}
	c := &Cluster{File: filepath.Join(dir, "fdb.cluster"), dir: dir}
	defer func() {
		if err != nil {
			err = fmt.Errorf("start a FoundationDB cluster: %w%s", err, c.logs())
			c.remove()
		}
	}()
	if err := checkRoom(dir); err != nil {
		return nil, err
	}
	if c.leash, err = newLeash(dir); err != nil {
		return nil, err
	}
	addresses, err := freeAddresses(o.processes)
	if err != nil {
		return nil, err
	}
	if o.tls {
		if c.Env, err = makeTLS(dir); err != nil {
			return nil, err
		}
		for i := range addresses {
			addresses[i] += ":tls"
		}
	}
	coordinators := addresses[:min(3, o.processes)]
	content := fmt.Sprintf("test:%s@%s\n", strings.ToLower(rand.Text()), strings.Join(coordinators, ","))
	if err := os.WriteFile(c.File, []byte(content), 0o600); err != nil {
		return nil, err
	}
	for i, address := range addresses {
		p := &Process{cluster: c, dir: filepath.Join(dir, strconv.Itoa(i)), program: programs.server}
		p.args = []string{
			"--cluster-file", c.File, "--public-address", address, "--listen-address", "public",
			"--datadir", p.dir, "--logdir", p.dir,
			// Copies go to different zones, which by default is one for a machine.
			"--locality-zoneid", strconv.Itoa(i), "--locality-machineid", strconv.Itoa(i),
			"--storage-memory", "256MiB", "--cache-memory", "256MiB",
			// Instead of half a minute to see who else turns up.
			"--knob_initial_failure_reaction_delay=0.5",
			// Instead of a twentieth of the disk, below which it stops serving without a word: tests need little.
			"--knob_min_available_space_ratio=0",
		}
		p.args = append(p.args, o.args...)
		if err := os.Mkdir(p.dir, 0o700); err != nil {
			return nil, err
		}
		c.Processes = append(c.Processes, p)
		if err := p.start(); err != nil {
			return nil, err
		}
	}
	redundancy, ready := "single", available
	if o.processes >= 3 {
		redundancy, ready = "double", healthy
	}
	if _, err := c.cli(programs, "configure new "+redundancy+" ssd"); err != nil {
		return nil, err
	}
	return c, c.await(programs, ready)
}

// cli runs a command of fdbcli.
func (c *Cluster) cli(programs tools, command string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience.Long())
	defer cancel()
	seconds := strconv.Itoa(int(patience.Long() / time.Second))
	cmd := exec.CommandContext(ctx, programs.cli, "-C", c.File, "--timeout", seconds, "--exec", command)
	cmd.Env = append(os.Environ(), c.Env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("fdbcli, %s: %w\n%s", command, err, out)
	}
	return string(out), nil
}

// status is the part of fdbcli's status that tests read.
type status struct {
	Client struct {
		Database struct {
			Available bool `json:"available"`
		} `json:"database_status"`
	} `json:"client"`
	Cluster struct {
		Data struct {
			State struct {
				Healthy bool   `json:"healthy"`
				Name    string `json:"name"`
			} `json:"state"`
		} `json:"data"`
	} `json:"cluster"`
}

func available(s status) bool { return s.Client.Database.Available }

func healthy(s status) bool { return available(s) && s.Cluster.Data.State.Healthy }

// await waits until the cluster's status is as it should be.
func (c *Cluster) await(programs tools, isFine func(status) bool) error {
	deadline := patience.Begin()
	for {
		out, err := c.cli(programs, "status json")
		if err != nil {
			return err
		}
		var s status
		_, object, _ := strings.Cut(out, "{") // behind a warning that it took long
		if err := json.Unmarshal([]byte("{"+object), &s); err != nil {
			return fmt.Errorf("fdbcli's status: %w\n%s", err, out)
		}
		if isFine(s) {
			return nil
		}
		if deadline.Over() {
			return fmt.Errorf("the cluster's status is not as it should be after %s, but %+v", patience.Long(), s)
		}
		time.Sleep(100 * time.Millisecond) // nothing tells when it changes
	}
}

// logs returns what the processes printed, for the report of a start that failed.
func (c *Cluster) logs() string {
	var text strings.Builder
	for i, p := range c.Processes {
		if out, err := os.ReadFile(p.output()); err == nil && len(out) > 0 {
			fmt.Fprintf(&text, "\nprocess %d printed:\n%s", i, out)
		}
	}
	return text.String()
}

func (c *Cluster) remove() {
	for _, p := range c.Processes {
		p.kill()
	}
	if c.leash != nil {
		c.leash.let()
	}
	_ = os.RemoveAll(c.dir) // it is in the directory for temporary files
}
