package settings_test

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/pqbridge/pqbridge/e2e/internal/pqd"
	"github.com/pqbridge/pqbridge/testenv"
)

// A wrong setting ends pqd with exit code 2 and a line that names the variable, its
// value, and what was expected.
func TestRefusesWrongSettings(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	listening := filepath.Join(dir, "listening.conf")
	pqd.Write(t, listening, "port: -1")
	socket := filepath.Join(dir, "socket.conf")
	pqd.Write(t, socket, `listen: "127.0.0.1:-1", websocket { port: -1, no_tls: true }`)
	clustered := filepath.Join(dir, "clustered.conf")
	pqd.Write(t, clustered, "cluster { name: c, port: -1 }")
	broken := filepath.Join(dir, "broken.conf")
	pqd.Write(t, broken, "port: {")
	users := filepath.Join(dir, "users.conf")
	pqd.Write(t, users, `authorization { user: u, password: p }`)

	shared, short := filepath.Join(dir, "shared"), filepath.Join(dir, "short")
	pqd.Write(t, shared, "0123456789abcdef\n")
	pqd.Write(t, short, "hush")
	ownCert, ownKey := pqd.Certificate(t, t.TempDir())
	_, otherKey := pqd.Certificate(t, t.TempDir())
	// three is PQ_CLUSTER with whatever else it needs.
	three := func(more ...string) []string {
		return append([]string{"PQ_CLUSTER=127.0.0.1:1,127.0.0.1:2,127.0.0.1:3", "PQ_NODE=127.0.0.1:1", "PQ_CLUSTER_SECRET=" + shared}, more...)
	}

	for _, c := range []struct {
		name string
		env  []string
		args []string
		says []string
	}{
		{name: "an even cluster", env: []string{"PQ_CLUSTER=10.0.0.1,10.0.0.2"}, says: []string{"PQ_CLUSTER", "odd number"}},
		{name: "four nodes", env: []string{"PQ_CLUSTER=10.0.0.1,10.0.0.2,10.0.0.3,10.0.0.4"}, says: []string{"PQ_CLUSTER", "odd number"}},
		{name: "one node", env: []string{"PQ_CLUSTER=10.0.0.1"}, says: []string{"PQ_CLUSTER", "expected 3 or 5"}},
		{name: "a node twice", env: []string{"PQ_CLUSTER=10.0.0.1,10.0.0.1:6222,10.0.0.3"}, says: []string{"PQ_CLUSTER", "twice"}},
		{name: "two names for a node", env: []string{"PQ_CLUSTER=a=10.0.0.1,b=10.0.0.1,c=10.0.0.3"}, says: []string{"PQ_CLUSTER", "twice"}},
		{name: "a name for two nodes", env: []string{"PQ_CLUSTER=a=10.0.0.1,a=10.0.0.2,c=10.0.0.3"}, says: []string{"PQ_CLUSTER", "twice"}},
		{name: "a node with a wild name", env: []string{"PQ_CLUSTER=a.b=10.0.0.1,b=10.0.0.2,c=10.0.0.3"}, says: []string{"PQ_CLUSTER", `"a.b"`, "<name>=<address>"}},
		{name: "a node with a path", env: []string{"PQ_CLUSTER=10.0.0.1/x,10.0.0.2,10.0.0.3"}, says: []string{"PQ_CLUSTER", "<host>:<port>"}},
		{name: "a node on no port", env: []string{"PQ_CLUSTER=10.0.0.1:0,10.0.0.2,10.0.0.3"}, says: []string{"PQ_CLUSTER", "1 to 65535"}},
		{name: "which node is not known", env: []string{"PQ_CLUSTER=198.51.100.1,198.51.100.2,198.51.100.3"}, says: []string{"PQ_NODE is not set", "198.51.100.1:6222"}},
		{name: "a node of another cluster", env: three("PQ_NODE=127.0.0.9"), says: []string{"PQ_NODE", `"127.0.0.9"`, "PQ_CLUSTER"}},
		{name: "no secret", env: three("PQ_CLUSTER_SECRET="), says: []string{"PQ_CLUSTER_SECRET", "all nodes share"}},
		{name: "a short secret", env: three("PQ_CLUSTER_SECRET=" + short), says: []string{"PQ_CLUSTER_SECRET", "at least 16"}},
		{name: "a secret without a cluster", env: []string{"PQ_CLUSTER_SECRET=" + shared}, says: []string{"PQ_CLUSTER_SECRET", "PQ_CLUSTER, which is not set"}},
		{name: "routes between machines without TLS", env: []string{"PQ_CLUSTER=198.51.100.1,198.51.100.2,198.51.100.3", "PQ_NODE=198.51.100.1", "PQ_CLUSTER_SECRET=" + shared}, says: []string{"PQ_CLUSTER_CA", "PQ_CLUSTER_CERT", "PQ_CLUSTER_KEY", "encrypted"}},
		{name: "half a certificate", env: three("PQ_CLUSTER_CERT=" + shared), says: []string{"PQ_CLUSTER_CA and PQ_CLUSTER_KEY"}},
		{name: "a certificate that is none", env: three("PQ_CLUSTER_CERT="+shared, "PQ_CLUSTER_KEY="+shared, "PQ_CLUSTER_CA="+shared), says: []string{"PQ_CLUSTER_CERT", "expected a certificate"}},
		{name: "a cluster and servers outside", env: three("NATS_URL=nats://127.0.0.1:1"), says: []string{"PQ_CLUSTER", "NATS_URL", "expected one"}},
		{name: "a cluster with an embedded store", env: three("PQ_STORE=local:x"), says: []string{"PQ_CLUSTER", "local:x"}},
		{name: "a cluster that does not sync", env: three("PQ_STORE=jetstream:pq?sync=os"), says: []string{"always sync"}},
		{name: "a cluster with other replicas", env: three("PQ_STORE=jetstream:pq?replicas=5"), says: []string{"each node is a replica"}},
		{name: "a cluster with PQ_SYNC", env: three("PQ_SYNC=false"), says: []string{"PQ_SYNC=false"}},
		{name: "a cluster in a configuration too", env: three("PQ_NATS_CONFIG=" + clustered), says: []string{"PQ_NATS_CONFIG", "JetStream or a cluster"}},
		{name: "a user alone in a configuration", env: three("PQ_NATS_CONFIG=" + users), says: []string{"PQ_NATS_CONFIG", "authorization.users"}},
		{name: "metrics of too many queues", env: []string{"PQ_METRICS_QUEUES=10001"}, says: []string{"PQ_METRICS_QUEUES", `"10001"`, "0 to 10000"}},
		{name: "metrics of fewer than no queues", env: []string{"PQ_METRICS_QUEUES=-1"}, says: []string{"PQ_METRICS_QUEUES", `"-1"`, "0 to 10000"}},
		{name: "a node without a cluster", env: []string{"PQ_NODE=a"}, says: []string{"PQ_NODE", "PQ_CLUSTER and PQ_STORE=jetstream"}},
		{name: "a stream with a wild name", env: []string{"PQ_STORE=jetstream:a.b"}, says: []string{"PQ_STORE", `"a.b"`, "letters, digits"}},
		{name: "a stream without servers", env: []string{"PQ_STORE=jetstream:pq?sync=always"}, says: []string{"PQ_STORE", "expected NATS_URL, or PQ_CLUSTER"}},
		{name: "a stream that syncs as it likes", env: []string{"PQ_STORE=jetstream:pq", "NATS_URL=nats://127.0.0.1:1"}, says: []string{"?sync=always", "?sync=os", "power failure"}},
		{name: "a stream that syncs sometimes", env: []string{"PQ_STORE=jetstream:pq?sync=often"}, says: []string{"expected always or os"}},
		{name: "a stream with two replicas", env: []string{"PQ_STORE=jetstream:pq?replicas=2"}, says: []string{"expected 3 or 5"}},
		{name: "a stream of bytes", env: []string{"PQ_STORE=jetstream:pq?max_bytes=1K"}, says: []string{"max_bytes", "64M"}},
		{name: "a size of no unit", env: []string{"PQ_MIN_FREE=1X"}, says: []string{"PQ_MIN_FREE", "K, M, G or T"}},
		{name: "room on disks of FoundationDB", env: []string{"PQ_MIN_FREE=1G", "PQ_STORE=fdb:fdb.cluster"}, says: []string{"PQ_MIN_FREE", "PQ_STORE=fdb:", "its own"}},
		{name: "a stream with an unknown option", env: []string{"PQ_STORE=jetstream:pq?ttl=1"}, says: []string{`"ttl"`, "expected replicas, sync, max_bytes or domain"}},
		{name: "init of an embedded store", args: []string{"init"}, says: []string{"PQ_STORE=local:", "jetstream:<name>"}},
		{name: "init of a cluster", env: three(), args: []string{"init"}, says: []string{"PQ_CLUSTER", "make their store"}},
		{name: "store without engine", env: []string{"PQ_STORE=/var/lib/pq"}, says: []string{"PQ_STORE", `"/var/lib/pq"`, "local:<directory>"}},
		{name: "store without place", env: []string{"PQ_STORE=local:"}, says: []string{"PQ_STORE", `"local:"`, "local:<directory>"}},
		{name: "prefix without a name", env: []string{"PQ_STORE=fdb:fdb.cluster?prefix="}, says: []string{"PQ_STORE", "?prefix=<name>", "1 to 64 bytes"}},
		{name: "unknown store option", env: []string{"PQ_STORE=fdb:fdb.cluster?tls=1"}, says: []string{"PQ_STORE", "?tls=1", "?prefix=<name>"}},
		{name: "unknown engine", env: []string{"PQ_STORE=redis:x"}, says: []string{"PQ_STORE", `"redis:x"`, "fdb:<cluster file>"}},
		{name: "prefix with a wildcard", env: []string{"PQ_PREFIX=pq.*"}, says: []string{"PQ_PREFIX", `"pq.*"`}},
		{name: "prefix in system space", env: []string{"PQ_PREFIX=$SYS"}, says: []string{"PQ_PREFIX", `"$SYS"`}},
		{name: "site with a dot", env: []string{"PQ_SITE=edge.7"}, says: []string{"PQ_SITE", `"edge.7"`, "A-Z a-z 0-9 - _"}},
		{name: "site within the prefix", env: []string{"PQ_SITE=jobs", "PQ_PREFIX=jobs"}, says: []string{"PQ_SITE", `"jobs"`, "another name"}},
		{name: "listen without port", env: []string{"PQ_LISTEN=127.0.0.1"}, says: []string{"PQ_LISTEN", `"127.0.0.1"`, "<host>:<port>"}},
		{name: "listen on a large port", env: []string{"PQ_LISTEN=127.0.0.1:65536"}, says: []string{"PQ_LISTEN", "65536", "0 to 65535"}},
		{name: "http without port", env: []string{"PQ_HTTP=8622"}, says: []string{"PQ_HTTP", `"8622"`, "<host>:<port>"}},
		{name: "hosts with a port", env: []string{"PQ_HTTP_HOSTS=pqd.example.com:8622"}, says: []string{"PQ_HTTP_HOSTS", "separated by commas"}},
		{name: "reply subjects", env: []string{"PQ_REPLY_SUBJECTS=a..b"}, says: []string{"PQ_REPLY_SUBJECTS", `"a..b"`, "tokens joined by dots"}},
		{name: "all reply subjects", env: []string{"PQ_REPLY_SUBJECTS=answers.>,>"}, says: []string{"PQ_REPLY_SUBJECTS", `">"`, "beside pq.>"}},
		{name: "reply subjects that are all but by name", env: []string{"PQ_REPLY_SUBJECTS=*.>"}, says: []string{"PQ_REPLY_SUBJECTS", `"*.>"`, "beside pq.>"}},
		{name: "reply subjects that are requests", env: []string{"PQ_REPLY_SUBJECTS=pq.>"}, says: []string{"PQ_REPLY_SUBJECTS", `"pq.>"`, "would be requests"}},
		{name: "reply subjects that are requests at a site", env: []string{"PQ_REPLY_SUBJECTS=hub.pq.jobs.*", "PQ_SITE=hub"}, says: []string{"PQ_REPLY_SUBJECTS", "beside hub.pq.>"}},
		{name: "one port for NATS and HTTP", env: []string{"PQ_HTTP=127.0.0.1:4333", "PQ_LISTEN=127.0.0.1:4333"}, says: []string{"PQ_HTTP=127.0.0.1:4333", "PQ_LISTEN=127.0.0.1:4333", "another port"}},
		{name: "one port for NATS and HTTP of all addresses", env: []string{"PQ_HTTP=:4222", "PQ_LISTEN=", "PQ_UNPROTECTED=http"}, says: []string{"PQ_HTTP=:4222", "PQ_LISTEN=127.0.0.1:4222", "another port"}},
		{name: "a store in a file", env: []string{"PQ_STORE=local:" + users}, says: []string{"PQ_STORE=local:" + users, "expected a directory"}},
		{name: "a store below a file", env: []string{"PQ_STORE=local:" + users + "/x/y"}, says: []string{"PQ_STORE=local:" + users, "expected a directory"}},
		{name: "a store where none can be", env: []string{"PQ_STORE=local:/proc/pqd"}, says: []string{"PQ_STORE=local:/proc/pqd", "may make it"}},
		{name: "a server of another kind", env: []string{"NATS_URL=http://127.0.0.1:1"}, says: []string{"NATS_URL", "address 1", "begins with http://", "expected nats://"}},
		{name: "sync that is no bool", env: []string{"PQ_SYNC=maybe"}, says: []string{"PQ_SYNC", `"maybe"`, "true or false"}},
		{name: "auto-create that is no bool", env: []string{"PQ_AUTO_CREATE=2"}, says: []string{"PQ_AUTO_CREATE", `"2"`, "true or false"}},
		{name: "log format", env: []string{"PQ_LOG=xml"}, says: []string{"PQ_LOG", `"xml"`, "text or json"}},
		{name: "log level", env: []string{"PQ_LOG_LEVEL=loud"}, says: []string{"PQ_LOG_LEVEL", `"loud"`, "debug, info, warn or error"}},
		{name: "configuration that is not there", env: []string{"PQ_NATS_CONFIG=/nonexistent"}, says: []string{"PQ_NATS_CONFIG", `"/nonexistent"`, "no such file"}},
		{name: "configuration that is a directory", env: []string{"PQ_NATS_CONFIG=" + dir}, says: []string{"PQ_NATS_CONFIG", "directory"}},
		{name: "configuration that is broken", env: []string{"PQ_NATS_CONFIG=" + broken}, says: []string{"PQ_NATS_CONFIG", "expected a nats-server configuration"}},
		{name: "two places to listen", env: []string{"PQ_NATS_CONFIG=" + listening, "PQ_LISTEN=127.0.0.1:0"}, says: []string{"PQ_LISTEN", "PQ_NATS_CONFIG", "expected one"}},
		{name: "embedded and not embedded", env: []string{"NATS_URL=nats://127.0.0.1:1", "PQ_LISTEN=127.0.0.1:0"}, says: []string{"PQ_LISTEN", "NATS_URL", "expected one"}},
		{name: "an address with a sign in its password", env: []string{"NATS_URL=nats://127.0.0.1:1,nats://u:secr%et@127.0.0.1:1"}, says: []string{"NATS_URL", "address 2", "nats://<host>:<port>"}},
		{name: "no address", env: []string{"NATS_URL= ,"}, says: []string{"NATS_URL", "nats://<host>:<port>"}},
		{name: "embedded and not embedded, with a password", env: []string{"NATS_URL=u:secret@127.0.0.1:1", "PQ_LISTEN=127.0.0.1:0"}, says: []string{"PQ_LISTEN", "xxxxx@127.0.0.1:1"}},
		{name: "configuration of a server that does not run", env: []string{"NATS_URL=nats://127.0.0.1:1", "PQ_NATS_CONFIG=" + users}, says: []string{"PQ_NATS_CONFIG", "NATS_URL", "expected one"}},
		{name: "credentials that are not there", env: []string{"NATS_URL=nats://127.0.0.1:1", "NATS_CREDS=/nonexistent"}, says: []string{"NATS_CREDS", `"/nonexistent"`, "no such file"}},
		{name: "a key file without a key", env: []string{"NATS_URL=nats://127.0.0.1:1", "NATS_NKEY=" + users}, says: []string{"NATS_NKEY", "expected a file with an NKey seed"}},
		{name: "two ways to log in", env: []string{"NATS_URL=nats://127.0.0.1:1", "NATS_TOKEN=t", "NATS_USER=u", "NATS_PASSWORD=p"}, says: []string{"NATS_USER and NATS_TOKEN", "expected one"}},
		{name: "user without password", env: []string{"NATS_URL=nats://127.0.0.1:1", "NATS_USER=u"}, says: []string{"NATS_USER is set alone", "NATS_PASSWORD"}},
		{name: "password without user", env: []string{"NATS_URL=nats://127.0.0.1:1", "NATS_PASSWORD=p"}, says: []string{"NATS_PASSWORD is set alone", "NATS_USER"}},
		{name: "certificate without key", env: []string{"NATS_URL=nats://127.0.0.1:1", "NATS_CERT=" + users}, says: []string{"NATS_CERT is set alone", "NATS_KEY"}},
		{name: "login without a door", env: []string{"NATS_TOKEN=t"}, says: []string{"NATS_TOKEN", "expected NATS_URL", "NATS_PASSWORD"}},
		{name: "a short password for all", env: []string{"NATS_USER=u", "NATS_PASSWORD=p", "PQ_LISTEN=127.0.0.1:0"}, says: []string{"NATS_PASSWORD", "at least 16"}},
		{name: "NATS for all", env: []string{"PQ_LISTEN=0.0.0.0:0"}, says: []string{`"0.0.0.0"`, "PQ_LISTEN", "no login", "NATS_USER", "PQ_UNPROTECTED=nats"}},
		{name: "NATS for a network", env: []string{"PQ_LISTEN=:0"}, says: []string{"PQ_LISTEN", "no login"}},
		{name: "NATS for all by its file", env: []string{"PQ_NATS_CONFIG=" + listening}, says: []string{`"0.0.0.0"`, "PQ_NATS_CONFIG", "no login"}},
		{name: "a websocket for all", env: []string{"PQ_NATS_CONFIG=" + socket}, says: []string{"websocket", "no login"}},
		{name: "a node's NATS for all", env: three("PQ_LISTEN=0.0.0.0:0"), says: []string{"PQ_LISTEN", "no login"}},
		{name: "an open door that is none", env: []string{"PQ_UNPROTECTED=all"}, says: []string{"PQ_UNPROTECTED", "expected nats, http or log"}},
		{name: "authorities without a server", env: []string{"NATS_CA=" + users}, says: []string{"NATS_CA", "NATS_URL"}},
		{name: "a certificate of HTTP without its key", env: []string{"PQ_HTTP_CERT=" + users}, says: []string{"PQ_HTTP_CERT is set alone", "PQ_HTTP_KEY"}},
		{name: "a key of HTTP without its certificate", env: []string{"PQ_HTTP_KEY=" + users}, says: []string{"PQ_HTTP_KEY is set alone", "PQ_HTTP_CERT"}},
		{name: "a certificate of HTTP that is not there", env: []string{"PQ_HTTP_CERT=/nonexistent", "PQ_HTTP_KEY=" + ownKey}, says: []string{"PQ_HTTP_CERT", `"/nonexistent"`, "no such file"}},
		{name: "a key of HTTP that is none", env: []string{"PQ_HTTP_CERT=" + ownCert, "PQ_HTTP_KEY=" + users}, says: []string{"PQ_HTTP_CERT", "PQ_HTTP_KEY", users, "expected a certificate and its key"}},
		{name: "the key of another certificate", env: []string{"PQ_HTTP_CERT=" + ownCert, "PQ_HTTP_KEY=" + otherKey}, says: []string{"PQ_HTTP_CERT", "PQ_HTTP_KEY", otherKey, "does not match"}},
		{name: "a console mode", env: []string{"PQ_CONSOLE=write"}, says: []string{"PQ_CONSOLE", `"write"`, "off, read or admin"}},
		{name: "a console for all", env: []string{"PQ_CONSOLE=read", "PQ_HTTP=0.0.0.0:0"}, says: []string{"PQ_CONSOLE=read", "PQ_HTTP=0.0.0.0:0", "PQ_CONSOLE_TOKEN", "loopback", "PQ_UNPROTECTED=http"}},
		{name: "a console for all to write", env: []string{"PQ_CONSOLE=admin", "PQ_HTTP=:0"}, says: []string{"PQ_CONSOLE=admin", "PQ_CONSOLE_TOKEN"}},
		{name: "a console for a network", env: []string{"PQ_CONSOLE=admin", "PQ_HTTP=192.0.2.1:0"}, says: []string{"PQ_CONSOLE=admin", "PQ_CONSOLE_TOKEN"}},
		{name: "a short token", env: []string{"PQ_CONSOLE_TOKEN=" + short, "PQ_HTTP=127.0.0.1:0", "PQ_LISTEN=127.0.0.1:0"}, says: []string{"PQ_CONSOLE_TOKEN", "at least 16"}},
		{name: "a token that is not there", env: []string{"PQ_CONSOLE_TOKEN=/nonexistent"}, says: []string{"PQ_CONSOLE_TOKEN", "no such file"}},
		{name: "a token without a console", env: []string{"PQ_CONSOLE=off", "PQ_CONSOLE_TOKEN=" + shared}, says: []string{"PQ_CONSOLE_TOKEN is set", "console is off"}},
		{name: "a console user without a console", env: []string{"NATS_URL=nats://127.0.0.1:1", "PQ_CONSOLE_USER=u", "PQ_CONSOLE_PASSWORD=secret"}, says: []string{"PQ_CONSOLE_USER is set", "PQ_CONSOLE=read"}},
		{name: "a console user without a password", env: []string{"NATS_URL=nats://127.0.0.1:1", "PQ_CONSOLE=read", "PQ_CONSOLE_USER=u"}, says: []string{"PQ_CONSOLE_USER is set alone"}},
		{name: "two console users", env: []string{"NATS_URL=nats://127.0.0.1:1", "PQ_CONSOLE=read", "PQ_CONSOLE_USER=u", "PQ_CONSOLE_PASSWORD=secret", "PQ_CONSOLE_CREDS=" + users}, says: []string{"PQ_CONSOLE_CREDS", "expected one way"}},
		{name: "a console user without a door", env: []string{"PQ_CONSOLE_USER=u", "PQ_CONSOLE_PASSWORD=secret"}, says: []string{"PQ_CONSOLE_USER", "asks for no login"}},
		{name: "an inbox for all", env: []string{"PQ_CONSOLE_INBOX=_INBOX.>"}, says: []string{"PQ_CONSOLE_INBOX", "_INBOX.console"}},
		{name: "an inbox among requests", env: []string{"PQ_CONSOLE_INBOX=pq.console"}, says: []string{"PQ_CONSOLE_INBOX", `"pq.console"`, "beside pq.>"}},
		{name: "an argument", args: []string{"start"}, says: []string{`"start"`, "expected none"}},
		{name: "a backup to nowhere", args: []string{"backup"}, says: []string{`"backup"`, "backup <directory>"}},
		{name: "a backup of FoundationDB", env: []string{"PQ_STORE=fdb:fdb.cluster"}, args: []string{"backup", "x"}, says: []string{"PQ_STORE", "fdbbackup"}},
		{name: "a check of FoundationDB", env: []string{"PQ_STORE=fdb:fdb.cluster"}, args: []string{"check"}, says: []string{"PQ_STORE", "expected an embedded store"}},
		{name: "a probe of any port", env: []string{"PQ_HTTP=127.0.0.1:0"}, args: []string{"probe"}, says: []string{"PQ_HTTP=127.0.0.1:0", "expected a port"}},
		{name: "a probe of something", args: []string{"probe", "x"}, says: []string{`"probe"`, "probe, recover"}},
		{name: "an unknown flag", args: []string{"--port=1"}, says: []string{"-port", "expected --help or --version"}},
		{name: "an unknown flag of a command", args: []string{"backup", "--port=1"}, says: []string{"-port", "expected --help or --version"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			code, stdout, stderr := testenv.Run(t, c.env, c.args...)
			if code != 2 {
				t.Errorf("exit code %d, expected 2", code)
			}
			if stdout != "" {
				t.Errorf("printed %q to stdout", stdout)
			}
			for _, part := range c.says {
				if !strings.Contains(stderr, part) {
					t.Errorf("expected %q in: %s", part, stderr)
				}
			}
			if strings.Contains(stderr, "secr") {
				t.Errorf("a password is shown: %s", stderr)
			}
			if strings.Count(stderr, "\n") != 1 {
				t.Errorf("expected one line, found: %s", stderr)
			}
		})
	}
}

func TestHelpShowsEverySetting(t *testing.T) {
	t.Parallel()
	code, stdout, _ := testenv.Run(t, nil, "--help")
	if code != 0 {
		t.Errorf("exit code %d, expected 0", code)
	}
	// The names that users rely on, each with its default.
	for _, row := range []string{
		`PQ_STORE +local:\./pq-data +\S`, `PQ_PREFIX +pq +\S`, `PQ_LISTEN +127\.0\.0\.1:4222 +\S`, `PQ_NATS_CONFIG +\S`,
		`PQ_HTTP +127\.0\.0\.1:8622 +\S`, `PQ_SYNC +true +\S`, `PQ_AUTO_CREATE +true +\S`, `PQ_LOG +text +\S`, `PQ_LOG_LEVEL +info +\S`, `PQ_PROFILE +false +\S`,
		`NATS_URL +\S`, `NATS_CREDS +\S`, `NATS_NKEY +\S`, `NATS_USER +\S`, `NATS_PASSWORD +\S`, `NATS_TOKEN +\S`,
		`NATS_CA +\S`, `NATS_CERT +\S`, `NATS_KEY +\S`,
	} {
		if !regexp.MustCompile(`(?m)^` + row).MatchString(stdout) {
			t.Errorf("no row like %q in:\n%s", row, stdout)
		}
	}
}

// A flag behind a command is no directory to write to.
func TestHelpBehindCommand(t *testing.T) {
	t.Parallel()
	for _, command := range []string{"backup", "check", "restore", "salvage"} {
		code, stdout, stderr := testenv.Run(t, nil, command, "--help")
		if code != 0 || !strings.Contains(stdout, "usage: pqd") {
			t.Errorf("%s --help: exit code %d: %s%s", command, code, stdout, stderr)
		}
	}
}

// NATS wants a service's version to have three numbers.
func TestVersionIsSemantic(t *testing.T) {
	t.Parallel()
	code, stdout, _ := testenv.Run(t, nil, "--version")
	if code != 0 || !regexp.MustCompile(`^pqd \d+\.\d+\.\d+\S*\n$`).MatchString(stdout) {
		t.Errorf("exit code %d and %q, expected 0 and a version", code, stdout)
	}
}

// An empty variable counts as not set: compose and unit files ask for the default in this
// way.
func TestEmptyVariableIsNotSet(t *testing.T) {
	t.Parallel()
	p := testenv.Daemon(t, "NATS_URL=", "PQ_SYNC=", "PQ_LOG_LEVEL=", "PQ_PREFIX=", "PQ_NATS_CONFIG=")
	p.Stop(t)
}

func TestWarnsOfNamesThatLookLikeSettings(t *testing.T) {
	t.Parallel()
	p := testenv.Daemon(t, "PQ_STROE=local:/elsewhere")
	p.Stop(t)
	if !strings.Contains(p.Log(), "PQ_STROE") {
		t.Error("expected a warning about PQ_STROE")
	}
}

func TestSalvageWithoutStore(t *testing.T) {
	t.Parallel()
	for place, reason := range map[string]string{t.TempDir(): "is empty", "/nonexistent": "no such file"} {
		code, _, stderr := testenv.Run(t, []string{"PQ_STORE=local:" + place}, "salvage", "x")
		if code != 1 || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, reason) {
			t.Errorf("%s: exit code %d: %s", place, code, stderr)
		}
	}
}
