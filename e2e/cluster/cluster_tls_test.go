package cluster_test

import (
	"bufio"
	"crypto/tls"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/e2e/internal/pqd"
	"github.com/pqbridge/pqbridge/testenv"
)

// Three nodes encrypt what they send each other, beside accounts and certificates for clients
// in PQ_NATS_CONFIG. No user of that file sees the log. A node that is lost is replaced.
func TestClusterWithTLSAndAccounts(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var hosts []string
	var cert, key string
	nodes := testenv.NewNodesAt(t, func(all []string) []string {
		hosts = all
		cert, key = pqd.Certificate(t, dir, all...)
		config := filepath.Join(dir, "nats.conf")
		pqd.Write(t, config, `tls { cert_file: "`+cert+`", key_file: "`+key+`" }
			accounts { QUEUES { users: [{user: bridge, password: secret}, {user: app, password: other}] } }`)
		return []string{
			"PQ_CLUSTER_CA=" + cert, "PQ_CLUSTER_CERT=" + cert, "PQ_CLUSTER_KEY=" + key,
			"PQ_NATS_CONFIG=" + config, "NATS_USER=bridge", "NATS_PASSWORD=secret",
		}
	})
	options := []nats.Option{nats.RootCAs(cert), nats.UserInfo("app", "other"), nats.MaxReconnects(-1)}

	for _, certified := range []bool{false, true} {
		config := &tls.Config{RootCAs: pqd.Trusted(t, cert)}
		if certified {
			pair, err := tls.LoadX509KeyPair(cert, key)
			if err != nil {
				t.Fatal(err)
			}
			config.Certificates = []tls.Certificate{pair}
		}
		conn, err := tls.Dial("tcp", net.JoinHostPort(hosts[0], "6222"), config)
		if err != nil {
			t.Fatal(err)
		}
		greeting, err := bufio.NewReader(conn).ReadString('\n')
		if welcome := strings.HasPrefix(greeting, "INFO "); welcome != certified {
			t.Errorf("with a certificate: %v: a node greets with %q, %v", certified, greeting, err)
		}
		if err := conn.Close(); err != nil {
			t.Log(err) // the node may have closed it
		}
	}
	if nc, err := nats.Connect(nodes.All[0].URL, nats.RootCAs(cert)); err == nil {
		nc.Close()
		t.Error("connected without a password")
	}

	active := nodes.Active(t)
	other := nodes.All[slices.IndexFunc(nodes.All, func(p *testenv.Process) bool { return p != active })]
	nc := other.Connect(t, options...)
	js, err := nc.JetStream(nats.MaxWait(testenv.Patience()))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.StreamInfo("PQ_pq_1"); err == nil {
		t.Error("a user of another account sees the log")
	}
	pqd.Push(t, nc, "jobs", 1, "kept")
	active.Kill(t)
	nodes.Active(t, active)
	var popped *nats.Msg
	testenv.Await(t, "the item is popped", func() bool {
		request := nats.NewMsg("pq.jobs.pop.min")
		request.Header.Set("Nats-Msg-Id", "once")
		popped, err = nc.RequestMsg(request, testenv.Attempt())
		return err == nil && testenv.IsItem(popped)
	})
	if string(popped.Data) != "kept" {
		t.Errorf("popped %q, expected what was pushed before the kill", popped.Data)
	}
}
