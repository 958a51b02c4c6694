package topologies_test

import (
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/e2e/internal/cases"
	"github.com/pqbridge/pqbridge/e2e/internal/pqd"
	"github.com/pqbridge/pqbridge/testenv"
)

// Clients and leaf nodes show certificates to the hub's pqd. The sites serve each other, and each itself while the link is cut.
func TestTLSEverywhere(t *testing.T) {
	t.Parallel()
	cert, key := pqd.Certificate(t, t.TempDir())
	files := []string{"/etc/nats/cert.pem", cert, "/etc/nats/key.pem", key, "/etc/nats/ca.pem", cert}
	atHub := with(t, file(t, "tls.conf", trusting(t, append([]string{"0.0.0.0:7422", "127.0.0.1:-1"}, files...)...)...),
		"PQ_SITE=hub", "PQ_HTTP_CERT="+cert, "PQ_HTTP_KEY="+key)
	link := testenv.NewProxy(t, "nats://"+listensFor(t, atHub, "leafnode"))
	atEdge := with(t, file(t, "edge.conf", throughHub, strings.TrimPrefix(link.URL(), "nats://"),
		"  deny_imports", `  tls { cert_file: "`+cert+`", key_file: "`+key+`", ca_file: "`+cert+`" }
  deny_imports`), "PQ_SITE=edge7")
	shown := []nats.Option{asPqd(), nats.RootCAs(cert), nats.ClientCert(cert, key)}
	there, here := atHub.Connect(t, shown...), atEdge.Connect(t, asPqd())
	for what, options := range map[string][]nats.Option{
		"without a certificate": {asPqd(), nats.RootCAs(cert)}, "that trusts nobody": {asPqd(), nats.ClientCert(cert, key)},
	} {
		if nc, err := nats.Connect(atHub.URL, options...); err == nil {
			nc.Close()
			t.Errorf("a client %s connects", what)
		}
	}
	if !strings.HasPrefix(atHub.HTTP, "https://") {
		t.Errorf("HTTP is at %s", atHub.HTTP)
	}
	joined(t, here, "hub.pq")
	joined(t, there, "edge7.pq")
	cases.Run(t, cases.File, "go", "pq", "at-hub-", there, &cases.Go{NC: there})
	cases.Run(t, cases.File, "go", "hub.pq", "from-edge-", here, &cases.Go{NC: here})
	cut(t, link, here, there)
	link.Block(false)
	joined(t, here, "hub.pq")
	acrossCuts(t, here, "hub.pq", link)

	// A pqd beside that server shows its certificate, too.
	beside := testenv.Daemon(t, "NATS_URL="+atHub.URL, "PQ_PREFIX=other", "NATS_USER=pqd", "NATS_PASSWORD="+passwords["PQD_PASSWORD"],
		"NATS_CA="+cert, "NATS_CERT="+cert, "NATS_KEY="+key)
	joined(t, there, "other")
	for _, p := range []*testenv.Process{beside, atEdge, atHub} {
		p.Stop(t)
	}
}
