package broker

import (
	"crypto/tls"
	"crypto/x509"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nkeys"

	"github.com/pqbridge/pqbridge/cmd/pqd/internal/settings"
)

// A server that lets in whom its file does not name is refused where other machines reach it, and the refusal names the
// line that is missing.
func TestOpenDoors(t *testing.T) {
	t.Parallel()
	const users = "authorization { users: [ {user: pqd, password: x}, {user: guest, password: x} ] }\n"
	key, err := nkeys.CreateUser()
	if err != nil {
		t.Fatal(err)
	}
	nkey, err := key.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name, file string
		says       []string // none: it may start
	}{
		{"users", "listen: 0.0.0.0:1\n" + users, nil},
		{"no users", "listen: 0.0.0.0:1", []string{`"0.0.0.0" (the file PQ_NATS_CONFIG)`, "NATS_USER"}},
		{"a guest who may do everything", "listen: 0.0.0.0:1\nno_auth_user: guest\n" + users, []string{"permissions for the user guest", "without no_auth_user: guest"}},
		{"a guest with an NKey", "listen: 0.0.0.0:1\nno_auth_user: " + nkey + "\nauthorization { users: [ {nkey: " + nkey + "} ] }", []string{"permissions for the user " + nkey}},
		{"a guest with permissions", "listen: 0.0.0.0:1\nno_auth_user: guest\nauthorization { users: [ {user: pqd, password: x}, {user: guest, password: x, permissions: {publish: pq.jobs.push}} ] }", nil},
		{"a guest on this machine", "no_auth_user: guest\n" + users, nil},
		{"a guest's leaf nodes", "no_auth_user: guest\nleafnodes { listen: 0.0.0.0:1 }\n" + users, []string{"PQ_NATS_CONFIG, leafnodes", "permissions for the user guest"}},
		{"leaf nodes with a login of their own", "no_auth_user: guest\nleafnodes { listen: 0.0.0.0:1, authorization { user: leaf, password: x } }\n" + users, nil},
		{"a websocket's guest", "websocket { listen: 0.0.0.0:1, no_tls: true, no_auth_user: guest }\n" + users, []string{"PQ_NATS_CONFIG, websocket", "permissions for the user guest"}},
		{"routes", "cluster { name: c, listen: 0.0.0.0:1 }\n" + users, []string{`"0.0.0.0" (the file PQ_NATS_CONFIG, cluster)`, "authorization { user: cluster"}},
		{"routes everywhere", "cluster { name: c, port: 1 }\n" + users, []string{`"0.0.0.0" (the file PQ_NATS_CONFIG, cluster)`}},
		{"routes with a login", "cluster { name: c, listen: 0.0.0.0:1, authorization { user: r, password: x } }\n" + users, nil},
		{"routes on this machine", "cluster { name: c, listen: 127.0.0.1:1 }\n" + users, nil},
		{"gateways", "gateway { name: c, listen: 0.0.0.0:1 }\n" + users, []string{"PQ_NATS_CONFIG, gateway", "authorization { user: gateway"}},
		{"gateways with a login", "gateway { name: c, listen: 0.0.0.0:1, authorization { user: g, password: x } }\n" + users, nil},
		{"monitoring", "http: 0.0.0.0:1\n" + users, []string{"PQ_NATS_CONFIG, http)", "http: 127.0.0.1:8222"}},
		{"monitoring where clients are", "host: 0.0.0.0\nhttp_port: 1\n" + users, []string{"PQ_NATS_CONFIG, http)"}},
		{"monitoring with TLS", "https: 0.0.0.0:1\n" + users, []string{"PQ_NATS_CONFIG, https)"}},
		{"monitoring on this machine", "listen: 0.0.0.0:1\nhttp: 127.0.0.1:1\n" + users, nil},
		{"profiles", "listen: 0.0.0.0:1\nprof_port: 2\n" + users, []string{"PQ_NATS_CONFIG, prof_port", "without it"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "nats.conf")
			if err := os.WriteFile(path, []byte(tc.file), 0o600); err != nil {
				t.Fatal(err)
			}
			s := settings.Settings{NATSConfig: settings.ExistingFile(path), Listen: settings.Address{Host: "127.0.0.1"}, Prefix: "pq"}
			_, err := readServerOptions(s)
			if len(tc.says) == 0 {
				if err != nil {
					t.Error(err)
				}
				return
			}
			for _, part := range append(tc.says, "no login", "PQ_UNPROTECTED=nats") {
				if err == nil || !strings.Contains(err.Error(), part) {
					t.Errorf("expected %q in: %v", part, err)
				}
			}
			if s.Unprotected = append(s.Unprotected, settings.DoorNATS); err != nil {
				if _, err := readServerOptions(s); err != nil {
					t.Errorf("with PQ_UNPROTECTED: %v", err)
				}
			}
		})
	}
}

// Routes and gateways need no password where they show certificates of an authority that the file names.
func TestDoorsWithCertificates(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		tls  *tls.Config
		asks bool
	}{
		"of an authority":   {&tls.Config{ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: x509.NewCertPool()}, true},
		"of any authority":  {&tls.Config{ClientAuth: tls.RequireAndVerifyClientCert}, false},
		"that nobody needs": {&tls.Config{ClientCAs: x509.NewCertPool()}, false},
	} {
		o := &server.Options{Cluster: server.ClusterOpts{Port: 1, TLSConfig: tc.tls}, Gateway: server.GatewayOpts{Port: 1, TLSConfig: tc.tls}}
		for _, d := range doors(o) {
			if (d.what == "cluster" || d.what == "gateway") && d.asks != tc.asks {
				t.Errorf("%s: a certificate %s is asked for: %t, expected %t", d.what, name, d.asks, tc.asks)
			}
		}
	}
}
