package topologies_test

import (
	"net"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/e2e/internal/pqd"
	"github.com/pqbridge/pqbridge/testenv"
)

const page = "../../docs/topologies.md"

// passwords are those in the files of the page. pqd is a process, whose environment has them, too.
var passwords = map[string]string{
	"PQD_PASSWORD": "secret-of-pqd", "WORKER_PASSWORD": "secret-of-worker", "EDGE7_PASSWORD": "secret",
	"ACME_PASSWORD": "secret-of-acme", "SALES_PASSWORD": "secret-of-sales", "AUTH_PASSWORD": "secret-of-auth",
	"PRODUCER_PASSWORD": "secret-of-producer", "REQUEUER_PASSWORD": "secret-of-requeuer", "VIEWER_PASSWORD": "secret-of-viewer", "ADMIN_PASSWORD": "secret-of-admin",
	"SHIPPING_PASSWORD": "secret-of-shipping", "ROUTE_PASSWORD": "secret-of-route", "GATEWAY_PASSWORD": "secret-of-gateway",
}

// passwordOf is the password of a user of a file.
func passwordOf(user string) string { return passwords[strings.ToUpper(user)+"_PASSWORD"] }

// file writes a configuration that the page shows, by the name in its first line. Pairs of texts say what is another here
// than there: addresses, mostly. Each has to be in it.
func file(t *testing.T, name string, pairs ...string) (path string) {
	t.Helper()
	return fileOf(t, page, name, pairs...)
}

// fileOf is the same of another page.
func fileOf(t *testing.T, page, name string, pairs ...string) (path string) {
	t.Helper()
	for _, block := range testenv.Blocks(t, page, "conf") {
		if !strings.HasPrefix(block.Text, "# "+name+"\n") {
			continue
		}
		text := block.Text
		pairs = append([]string{"listen: 0.0.0.0:4222", "listen: 127.0.0.1:-1"}, pairs...)
		for i := 0; i < len(pairs); i += 2 {
			if !strings.Contains(text, pairs[i]) {
				t.Fatalf("%s in %s: expected %q in it", name, page, pairs[i])
			}
			text = strings.ReplaceAll(text, pairs[i], pairs[i+1])
		}
		path = filepath.Join(t.TempDir(), name)
		pqd.Write(t, path, text)
		return path
	}
	t.Fatalf("%s shows no %s", page, name)
	return ""
}

// natsServer runs a NATS server with a configuration file.
func natsServer(t *testing.T, path string) *server.Server {
	t.Helper()
	text := pqd.Read(t, path)
	for name, password := range passwords { // pqd's process has them in its environment
		text = regexp.MustCompile(`\$`+name+`\b`).ReplaceAllLiteralString(text, strconv.Quote(password))
	}
	plain := filepath.Join(t.TempDir(), "plain.conf")
	pqd.Write(t, plain, text)
	o, err := server.ProcessConfigFile(plain)
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	if o.Host == "" && o.Port == 0 {
		o.Host, o.Port = "127.0.0.1", server.RANDOM_PORT
	}
	o.NoSigs, o.NoLog, o.WriteDeadline = true, true, testenv.Patience()
	srv, err := server.NewServer(o)
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	srv.Start()
	t.Cleanup(func() {
		srv.Shutdown()
		srv.WaitForShutdown()
	})
	if !srv.ReadyForConnections(testenv.Patience()) {
		t.Fatalf("the NATS server of %s was not ready after %s", path, testenv.Patience())
	}
	return srv
}

// environment is that of a pqd with files of the page.
func environment(more ...string) []string {
	env := more
	for name, password := range passwords {
		env = append(env, name+"="+password)
	}
	return append(env, "NATS_USER=pqd", "NATS_PASSWORD="+passwords["PQD_PASSWORD"])
}

// with runs a pqd with its own server, which has a file of the page.
func with(t *testing.T, path string, env ...string) *testenv.Process {
	t.Helper()
	// Its server says at this level where it listens.
	return testenv.Daemon(t, environment(append(env, "PQ_NATS_CONFIG="+path, "PQ_LISTEN=", "PQ_LOG_LEVEL=debug")...)...)
}

// beside runs a pqd beside a server.
func beside(t *testing.T, srv *server.Server, env ...string) *testenv.Process {
	t.Helper()
	return testenv.Daemon(t, environment(append(env, "NATS_URL="+srv.ClientURL())...)...)
}

// listensFor returns where pqd's own server listens for what is not a client.
func listensFor(t *testing.T, p *testenv.Process, what string) (address string) {
	t.Helper()
	found := regexp.MustCompile(`Listening for ` + what + ` connections on ([\d.:]+)`).FindStringSubmatch(p.Log())
	if found == nil {
		t.Fatalf("pqd does not log where it listens for %s", what)
	}
	return found[1]
}

// leafAddress returns where a server listens for leaf nodes.
func leafAddress(t *testing.T, srv *server.Server) string {
	t.Helper()
	varz, err := srv.Varz(nil)
	if err != nil {
		t.Fatal(err)
	}
	return net.JoinHostPort(varz.LeafNode.Host, strconv.Itoa(varz.LeafNode.Port))
}

// asPqd is a login that may do everything.
func asPqd() nats.Option { return nats.UserInfo("pqd", passwords["PQD_PASSWORD"]) }
