package topologies_test

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"net"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"
	"go.yaml.in/yaml/v3"

	"github.com/pqbridge/pqbridge/e2e/internal/pqd"
	"github.com/pqbridge/pqbridge/testenv"
)

// copied is a file of NATS that people copy, and who may do what with it.
type copied struct {
	page, name string   // a block of a page by its first line; without a page a path from the root
	pairs      []string // what is another here
	users      map[string]rights
}

// rights are examples of what a user may do, and of what it may not.
type rights struct{ publish, hear, notPublish, notHear []string }

// everything is for pqd's user, whom the file limits in no way.
var everything = rights{publish: []string{"pq.jobs.event.dead", "_INBOX.x.y"}, hear: []string{"pq.>", "_INBOX.x"}}

// bridge is what pqd's user needs, and no more.
var bridge = rights{
	publish: []string{"pq.jobs.event.dead", "_INBOX.x.y"}, hear: []string{"pq.>"},
	notPublish: []string{"pq.jobs.push", "$JS.API.STREAM.LIST"}, notHear: []string{">", "$SYS.>"},
}

// edge is a site of its own that the hub need not trust.
var edge = rights{
	publish:    []string{"hub.pq.jobs.push", "hub.pq.jobs.push.5", "edge7.pq.jobs.event.dead", "_INBOX.x.y"},
	hear:       []string{"edge7.pq.>", "_INBOX.edge7.>"},
	notPublish: []string{"pq.jobs.push", "hub.pq.jobs.pop.min", "hub.pq.jobs.admin.purge", "hub.pq.other.push", "hub.pq.jobs.event.dead", "hub.pq._sys.event.bridge", "hub.pq.jobs.ack.c.t", "edge8.pq.jobs.pop.min", "edge8.pq.jobs.link.hub", "$SRV.PING", "PQ_CLUSTER.pq.x", "$JS.API.STREAM.LIST"},
	notHear:    []string{">", "_INBOX.>", "_INBOX.worker.>", "pq.>", "hub.pq.>", "edge8.pq.>", "*.pq.>", "$SRV.>", "$SRV.PING.pq", "PQ_CLUSTER.>"},
}

// of returns what a user of one queue or account may do, beside what belongs to others.
func of(own string, publish, hear, notPublish, notHear []string) rights {
	r := rights{publish: publish, hear: append(hear, "_INBOX."+own+".x"), notPublish: notPublish, notHear: notHear}
	r.notPublish = append(r.notPublish, "$SYS.REQ.SERVER.PING", "pq._sys.event.bridge")
	r.notHear = append(r.notHear, ">", "pq.>", "$SYS.>")
	return r
}

// copies are all files for nats-server that the repository shows.
func copies(t *testing.T) []copied {
	cert, key := pqd.Certificate(t, t.TempDir())
	certificates := []string{"/etc/nats/cert.pem", cert, "/etc/nats/key.pem", key}
	o, ids, operatorFile := newOperator(t)
	_, issuer := newKey(t, nkeys.CreateAccount)
	nowhere := []string{throughHub, "127.0.0.1:1"}
	one := func(publish ...string) []string { return publish }
	return []copied{
		{name: "deploy/nats.conf", users: map[string]rights{
			"pqd":      bridge,
			"producer": of("producer", one("pq.jobs.push", "pq.jobs.push.5"), nil, one("pq.jobs.pop.min", "pq.other.push", "pq.jobs.event.dead", "pq.jobs.admin.purge"), one("_INBOX.worker.>", "pq.jobs.event.*")),
			"worker":   of("worker", one("pq.jobs.pop.min", "pq.jobs.ack.c.t"), nil, one("pq.jobs.push", "pq.other.pop.min", "pq.jobs.event.dead", "_INBOX.producer.x"), one("_INBOX.>", "_INBOX.producer.>")),
			"requeuer": of("requeuer", one("pq.jobs-dead.admin.requeue"), nil, one("pq.jobs-dead.pop.min", "pq.jobs.push", "pq.other-dead.admin.requeue"), one("_INBOX.worker.>")),
			"viewer":   of("viewer", one("pq.other.info", "pq.jobs.list"), one("pq.*.event.*"), one("pq.jobs.pop.min", "pq.jobs.push", "pq.jobs.admin.purge", "pq.jobs.event.dead"), one("_INBOX.>")),
			"admin":    of("admin", one("pq.jobs.admin.purge"), one("pq.jobs.event.*"), one("pq.other.admin.purge", "pq.other.info", "pq.jobs.event.dead"), one("_INBOX.>", "pq.other.event.*")),
		}},
		{name: "deploy/accounts.conf", users: map[string]rights{
			"pqd":      bridge,
			"sales":    of("x", one("pq.sales.push", "pq.sales-dead.pop.min", "_R_.x.y"), one("pq.sales.event.*"), one("pq.shipping.push", "pq.shipping.pop.min", "pq.shipping-dead.list", "pq.sales.event.dead", "pq.shipping.event.dead"), one("pq.shipping.event.*", "pq.sales.>")),
			"shipping": of("x", one("pq.shipping.push"), one("pq.shipping.event.*"), one("pq.sales.push", "pq.sales-dead.pop.min", "pq.shipping.event.dead"), one("pq.sales.event.*")),
		}},
		{name: "docker-compose.yml", pairs: []string{"127.0.0.1:8222", "127.0.0.1:-1", "${NATS_USER:-pq}", "pqd", "${NATS_PASSWORD:-}", passwordOf("pqd")}, users: map[string]rights{"pqd": everything}},
		{page: tenantsPage, name: "tenants.conf", users: map[string]rights{
			"pqd":   everything,
			"acme":  of("x", one("pq.ACME.jobs.push", "pq.ACME.jobs.pop.min", "_R_.x.y"), one("pq.ACME.*.event.*"), one("pq.SALES.jobs.push", "pq.ACME.jobs.event.dead", "pq.SALES.jobs.event.dead", "pq.jobs.push"), one("pq.SALES.*.event.*", "pq.ACME.jobs.push")),
			"sales": of("x", one("pq.SALES.jobs.push"), one("pq.SALES.*.event.*"), one("pq.ACME.jobs.pop.min", "pq.SALES.jobs.event.dead"), one("pq.ACME.*.event.*")),
		}},
		{page: page, name: "hub.conf", pairs: []string{"0.0.0.0:7422", "127.0.0.1:-1"}, users: map[string]rights{
			"pqd": everything, "edge7": edge,
			"worker": of("worker", one("pq.jobs.pop.min", "edge7.pq.jobs.pop.min", "edge7.pq.jobs.ack.c.t"), nil, one("pq.jobs.push", "edge7.pq.other.pop.min", "hub.pq.jobs.event.dead"), one("_INBOX.>", "*.pq.>")),
		}},
		{page: page, name: "edge.conf", pairs: nowhere, users: map[string]rights{"pqd": everything}},
		{page: page, name: "gateway.conf", pairs: []string{"0.0.0.0:6222", "127.0.0.1:-1", "0.0.0.0:7222", "127.0.0.1:-1", "east.example.com:7222", "127.0.0.1:1", "west.example.com:7222", "127.0.0.1:1"},
			users: map[string]rights{"pqd": everything}},
		{page: page, name: "domain.conf", pairs: append(nowhere, "/var/lib/nats", t.TempDir()), users: map[string]rights{"pqd": everything}},
		{page: page, name: "operator.conf", pairs: []string{"/etc/nats/operator.jwt", operatorFile, "$SYSTEM_ACCOUNT", ids["SYS"], "/var/lib/nats/jwt", o.dir}},
		{page: page, name: "callout.conf", pairs: []string{"$AUTH_ISSUER", issuer}, users: map[string]rights{"pqd": everything}},
		{page: page, name: "websocket.conf", pairs: append(certificates, "0.0.0.0:8443", "127.0.0.1:-1"), users: map[string]rights{
			"pqd":    everything,
			"worker": of("worker", one("pq.jobs.push", "pq.jobs.pop.min", "pq.jobs.ack.c.t"), nil, one("pq.other.push", "pq.jobs.admin.purge", "pq.jobs.event.dead"), one("_INBOX.>")),
		}},
		{page: page, name: "tls.conf", pairs: append(certificates, "/etc/nats/ca.pem", cert, "0.0.0.0:7422", "127.0.0.1:-1"), users: map[string]rights{"pqd": everything, "edge7": edge}},
	}
}

// path writes the file as this machine can have it.
func (c copied) path(t *testing.T) string {
	t.Helper()
	if c.page != "" {
		return fileOf(t, c.page, c.name, c.pairs...)
	}
	text := pqd.Read(t, filepath.Join("../..", c.name))
	if strings.HasSuffix(c.name, ".yml") {
		var compose struct {
			Configs map[string]struct{ Content string }
		}
		if err := yaml.Unmarshal([]byte(text), &compose); err != nil {
			t.Fatal(err)
		}
		text = strings.ReplaceAll(compose.Configs["nats"].Content, "$$", "$")
	}
	for i := 0; i < len(c.pairs); i += 2 {
		text = strings.ReplaceAll(text, c.pairs[i], c.pairs[i+1])
	}
	path := filepath.Join(t.TempDir(), filepath.Base(c.name))
	pqd.Write(t, path, text)
	return path
}

// Each file that people copy starts a server, lets nobody in who shows nothing, neither as a client nor as another server,
// and each user does what the file is for and reaches nothing of the others.
func TestFilesToCopy(t *testing.T) {
	t.Parallel()
	for _, c := range copies(t) {
		t.Run(filepath.Base(c.name), func(t *testing.T) {
			t.Parallel()
			srv := natsServer(t, c.path(t))
			refusesStrangers(t, srv)
			for user, may := range c.users {
				nc := loginAs(t, srv, user, c.pairs)
				for i, allowed := range [][]string{may.notPublish, may.publish} {
					for _, subject := range allowed {
						if err := denied(nc, `Publish to "`+subject+`"`, nc.Publish(subject, nil)); (err == nil) != (i == 1) {
							t.Errorf("%s publishes %s: %v", user, subject, err)
						}
					}
				}
				for i, allowed := range [][]string{may.notHear, may.hear} {
					for _, subject := range allowed {
						_, err := nc.SubscribeSync(subject)
						if err := denied(nc, `Subscription to "`+subject+`"`, err); (err == nil) != (i == 1) {
							t.Errorf("%s hears %s: %v", user, subject, err)
						}
					}
				}
			}
		})
	}
}

// A password of digits is no number to the server of docker-compose.yml.
func TestComposePasswordOfDigits(t *testing.T) {
	t.Parallel()
	const password = "12345678901234567890"
	c := copied{name: "docker-compose.yml", pairs: []string{"127.0.0.1:8222", "127.0.0.1:-1", "${NATS_USER:-pq}", "1e5", "${NATS_PASSWORD:-}", password}}
	srv := natsServer(t, c.path(t))
	refusesStrangers(t, srv)
	nc, err := nats.Connect(srv.ClientURL(), nats.UserInfo("1e5", password))
	if err != nil {
		t.Fatal(err)
	}
	nc.Close()
}

// The table above has every file: what a new page shows is tried, too.
func TestFilesToCopyAreAll(t *testing.T) {
	t.Parallel()
	var known []string
	for _, c := range copies(t) {
		known = append(known, filepath.Base(c.name))
	}
	known = append(known, "mappings = {") // a line for any file, which TestSeveralStores has
	for _, pattern := range []string{"../../*.md", "../../docs/*.md", "../../docs/*/*.md", "../../examples/*.md", "../../deploy/*.conf"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range files {
			text := pqd.Read(t, path)
			names := []string{filepath.Base(path)}
			if filepath.Ext(path) == ".md" {
				names = nil
				for _, block := range regexp.MustCompile("(?m)^```conf\n(?:# )?(.*)$").FindAllStringSubmatch(text, -1) {
					names = append(names, block[1])
				}
			}
			for _, name := range names {
				if !slices.Contains(known, name) {
					t.Errorf("%s: nothing tries %s: add it to the table", path, name)
				}
			}
		}
	}
}

// loginAs connects a user with the password of its variable.
func loginAs(t *testing.T, srv *server.Server, user string, pairs []string) *nats.Conn {
	t.Helper()
	options := []nats.Option{
		nats.UserInfo(user, passwordOf(user)), nats.CustomInboxPrefix("_INBOX." + user),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}),
	}
	if i := slices.Index(pairs, "/etc/nats/ca.pem"); i >= 0 {
		options = append(options, nats.RootCAs(pairs[i+1]), nats.ClientCert(pairs[i+1], filepath.Join(filepath.Dir(pairs[i+1]), "key.pem")))
	}
	nc, err := nats.Connect(srv.ClientURL(), options...)
	if err != nil {
		t.Fatalf("%s: %v", user, err)
	}
	t.Cleanup(nc.Close)
	return nc
}

// denied returns the server's objection to what a client has just done.
func denied(nc *nats.Conn, what string, err error) error {
	if err == nil {
		err = nc.FlushTimeout(testenv.Patience())
	}
	if last := nc.LastError(); err == nil && last != nil && strings.Contains(strings.ToLower(last.Error()), strings.ToLower(what)) {
		return last
	}
	return err
}

// refusesStrangers tries each port without a login.
func refusesStrangers(t *testing.T, srv *server.Server) {
	t.Helper()
	for kind, port := range ports(t, srv) {
		if answer := stranger(t, port.address, port.hello); answer == "PONG" {
			t.Errorf("a stranger joins as a %s", kind)
		}
	}
	if url := srv.WebsocketURL(); url != "" {
		if nc, err := nats.Connect(url, nats.Secure(&tls.Config{InsecureSkipVerify: true})); err == nil {
			nc.Close()
			t.Error("a stranger joins by WebSocket")
		}
	}
}

type port struct{ address, hello string }

// ports are those of a server, with the greeting of whoever comes there.
func ports(t *testing.T, srv *server.Server) map[string]port {
	t.Helper()
	all := map[string]port{"client": {srv.Addr().String(), `{"verbose":false,"protocol":1}`}}
	varz, err := srv.Varz(nil)
	if err != nil {
		t.Fatal(err)
	}
	if varz.LeafNode.Port != 0 {
		all["leaf node"] = port{leafAddress(t, srv), `{"server_id":"EVIL","name":"evil"}`}
	}
	if a := srv.ClusterAddr(); a != nil {
		all["route"] = port{a.String(), fmt.Sprintf(`{"name":"evil","cluster":%q}`, srv.ClusterName())}
	}
	if a := srv.GatewayAddr(); a != nil {
		all["gateway"] = port{a.String(), `{"name":"evil","gateway":"west"}`}
	}
	return all
}

// stranger greets a port as a server or client without a login, and returns the end of the conversation: PONG where it
// is let in.
func stranger(t *testing.T, address, hello string) string {
	t.Helper()
	conn, err := net.DialTimeout("tcp", address, testenv.Patience())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := fmt.Fprintf(conn, "CONNECT %s\r\nPING\r\n", hello); err != nil {
		return err.Error()
	}
	for lines := bufio.NewScanner(conn); lines.Scan(); {
		word, _, _ := strings.Cut(lines.Text(), " ")
		if word == "PONG" || word == "-ERR" {
			return word
		}
	}
	return "closed"
}

// What is tried without a login above succeeds where none is asked for.
func TestStrangersJoinOpenServers(t *testing.T) {
	t.Parallel()
	tried := make(map[string]bool)
	for _, text := range []string{
		"leafnodes { listen: 127.0.0.1:-1 }",
		`cluster { name: east, listen: 127.0.0.1:-1 }
gateway { name: east, listen: 127.0.0.1:-1, gateways: [ {name: west, urls: ["nats://127.0.0.1:1"]} ] }`,
	} {
		path := filepath.Join(t.TempDir(), "open.conf")
		pqd.Write(t, path, text)
		for kind, port := range ports(t, natsServer(t, path)) {
			tried[kind] = true
			if answer := stranger(t, port.address, port.hello); answer != "PONG" {
				t.Errorf("as a %s: %s", kind, answer)
			}
		}
	}
	if len(tried) != 4 {
		t.Errorf("tried %v", tried)
	}
}
