package broker

import (
	"cmp"
	"crypto/tls"
	"slices"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/pqbridge/pqbridge/cmd/pqd/internal/settings"
)

// Anybody who reaches an open door may do everything behind it. So pqd opens a door to other machines only if it
// asks for a login, or if PQ_UNPROTECTED names it.

// addOwnLogin makes the server ask all clients for this login.
func addOwnLogin(o *server.Options, s settings.Settings) error {
	if !s.OwnLogin() {
		return nil
	}
	if len(s.NATS.Password) < settings.MinSecret {
		return settings.Usagef("NATS_PASSWORD guards the embedded NATS server: expected at least %d characters, such as the output of: openssl rand -hex 32", settings.MinSecret)
	}
	o.Users = []*server.User{{Username: s.NATS.User, Password: s.NATS.Password}}
	return nil
}

// door is a port of the server.
type door struct {
	what string // its block of the file; "": the port for clients
	host string
	open bool   // the server listens there
	asks bool   // it lets in only users whom its configuration names
	cure string // the line to write into the file; "": a login for clients
}

// checkDoors refuses an embedded server that other machines reach without a login.
func checkDoors(s *settings.Settings, o *server.Options, where string) error {
	if s.Unprotected.Accepts(settings.DoorNATS) {
		return nil
	}
	for _, d := range doors(o) {
		if !d.open || d.asks || (settings.Address{Host: d.host}).IsLoopback() {
			continue
		}
		if d.what != "" {
			where = "the file PQ_NATS_CONFIG, " + d.what
		}
		return settings.Usagef("other machines reach the embedded NATS server at %q (%s), and it asks for no login: expected %s, a loopback address, or PQ_UNPROTECTED=%s if everybody there may do everything",
			cmp.Or(d.host, server.DEFAULT_HOST), where, cmp.Or(d.cure, "NATS_USER and NATS_PASSWORD, PQ_NATS_CONFIG with users"), settings.DoorNATS)
	}
	return nil
}

// doors are all ports that a configuration can open. To routes and gateways the server shows the subjects of all
// accounts, whatever login it asks of clients.
func doors(o *server.Options) []door {
	clients := cmp.Or(o.Host, server.DEFAULT_HOST)
	users := asksForLogin(o)
	all := []door{
		forUsers("", clients, true, false, users, o, o.NoAuthUser),
		forUsers("websocket", o.Websocket.Host, o.Websocket.Port != 0, o.Websocket.Username != "" || o.Websocket.Token != "",
			users, o, cmp.Or(o.Websocket.NoAuthUser, o.NoAuthUser)),
		forUsers("leafnodes", o.LeafNode.Host, o.LeafNode.Port != 0, o.LeafNode.Username != "" || len(o.LeafNode.Users) > 0 || o.LeafNode.Nkey != "", users, o, o.NoAuthUser),
		forUsers("mqtt", o.MQTT.Host, o.MQTT.Port != 0, o.MQTT.Username != "" || o.MQTT.Token != "", users, o, cmp.Or(o.MQTT.NoAuthUser, o.NoAuthUser)),
	}
	for _, servers := range []struct {
		what, host, user string
		port             int
		tls              *tls.Config
	}{
		{"cluster", o.Cluster.Host, o.Cluster.Username, o.Cluster.Port, o.Cluster.TLSConfig},
		{"gateway", o.Gateway.Host, o.Gateway.Username, o.Gateway.Port, o.Gateway.TLSConfig},
	} {
		all = append(all, door{servers.what, servers.host, servers.port != 0, servers.user != "" || showsCertificate(servers.tls),
			"the line authorization { user: " + servers.what + ", password: … } there, or tls with ca_file"})
	}
	monitoring := cmp.Or(o.HTTPHost, clients)
	return append(all,
		door{"http", monitoring, o.HTTPPort != 0, false, "the line http: 127.0.0.1:8222"},
		door{"https", monitoring, o.HTTPSPort != 0, false, "the line https: 127.0.0.1:8222"},
		door{"prof_port", clients, o.ProfPort != 0, false, "the file without it"},
	)
}

// forUsers is a door for users of the file, or for the door's own user. Others get in as noAuthUser, which counts
// as no login unless that user has permissions.
func forUsers(what, host string, open, own, users bool, o *server.Options, noAuthUser string) door {
	d := door{what: what, host: host, open: open, asks: own || users}
	if users && !own && noAuthUser != "" && !isLimited(o, noAuthUser) {
		d.asks, d.cure = false, "permissions for the user "+noAuthUser+", or the file without no_auth_user: "+noAuthUser
	}
	return d
}

// showsCertificate reports whether the other side needs a certificate of an authority that the file names. Without
// ca_file a certificate of any public authority would do.
func showsCertificate(t *tls.Config) bool {
	return t != nil && t.ClientAuth == tls.RequireAndVerifyClientCert && t.ClientCAs != nil
}

// isLimited reports whether a user has permissions of his own.
func isLimited(o *server.Options, user string) bool {
	return slices.ContainsFunc(o.Users, func(u *server.User) bool { return u.Username == user && u.Permissions != nil }) ||
		slices.ContainsFunc(o.Nkeys, func(u *server.NkeyUser) bool { return u.Nkey == user && u.Permissions != nil })
}

// asksForLogin reports whether the server lets in only users whom its configuration names, no_auth_user aside.
func asksForLogin(o *server.Options) bool {
	return len(o.Users)+len(o.Nkeys) > 0 || o.Username != "" || o.Authorization != "" ||
		len(o.TrustedOperators) > 0 || o.AuthCallout != nil || o.CustomClientAuthentication != nil || o.TLSVerify
}
