package settings_test

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/e2e/internal/pqd"
	"github.com/pqbridge/pqbridge/testenv"
)

// On SIGHUP the embedded server reads its file again: users are added and removed, and
// new connections get the new certificate. Work continues meanwhile.
func TestReload(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	config := filepath.Join(dir, "nats.conf")
	cert, key := pqd.Certificate(t, dir)
	users := func(others string) {
		pqd.Write(t, config, fmt.Sprintf(`tls { cert_file: %q, key_file: %q }
debug: %t
authorization { users: [ {user: pqd, password: p}, {user: stays, password: s}, %s ] }`, cert, key, strings.Contains(others, "comes"), others))
	}
	users("{user: goes, password: g}")
	p := testenv.Daemon(t, "PQ_NATS_CONFIG="+config, "NATS_USER=pqd", "NATS_PASSWORD=p")
	first := served(t, p.URL)
	stays := p.Connect(t, nats.RootCAs(cert), nats.UserInfo("stays", "s"))
	goes := p.Connect(t, nats.RootCAs(cert), nats.UserInfo("goes", "g"), nats.NoReconnect())
	gone := goes.StatusChanged(nats.CLOSED)
	pqd.Push(t, stays, "jobs", 1, "x")

	pqd.Certificate(t, dir)
	users("{user: comes, password: c}")
	p.HangUp(t)
	p.AwaitLog(t, "reloaded the configuration")
	<-gone
	if second := served(t, p.URL); second.Equal(first) {
		t.Error("the certificate is the one from before")
	}
	if _, err := nats.Connect(p.URL, nats.RootCAs(cert), nats.UserInfo("goes", "g")); err == nil {
		t.Error("a removed user can log in")
	}
	p.AwaitLog(t, "error of a NATS client") // though what is to be logged has changed
	pqd.Push(t, p.Connect(t, nats.RootCAs(cert), nats.UserInfo("comes", "c")), "jobs", 2, "y")
	if !stays.IsConnected() || stays.Reconnects != 0 {
		t.Error("a remaining user was disconnected")
	}

	// A file that is wrong changes nothing.
	pqd.Write(t, config, "authorization {")
	p.HangUp(t)
	p.AwaitLog(t, "the old one still holds")
	if body := pqd.Pop(t, stays, "jobs", "min"); body != "x" {
		t.Errorf("popped %q", body)
	}
	p.Stop(t)
}

// served is the certificate that a server currently presents.
func served(t *testing.T, at string) *x509.Certificate {
	t.Helper()
	u, err := url.Parse(at)
	if err != nil {
		t.Fatal(err)
	}
	var shown *x509.Certificate
	nc, err := nats.Connect("tls://"+u.Host, nats.UserInfo("stays", "s"), nats.Secure(&tls.Config{
		InsecureSkipVerify: true, // it is only looked at
		VerifyConnection: func(state tls.ConnectionState) error {
			shown = state.PeerCertificates[0]
			return nil
		},
	}))
	if err != nil {
		t.Fatal(err)
	}
	nc.Close()
	return shown
}

// Without a file there is nothing to reload, and pqd goes on.
func TestHangUpWithoutFiles(t *testing.T) {
	t.Parallel()
	p := testenv.Daemon(t)
	nc := p.Connect(t)
	p.HangUp(t)
	p.AwaitLog(t, "nothing to reload")
	pqd.Push(t, nc, "jobs", 1, "x")
	p.Stop(t)
}
