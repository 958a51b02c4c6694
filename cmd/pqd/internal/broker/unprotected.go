package broker

import (
	"cmp"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/pqbridge/pqbridge/cmd/pqd/internal/settings"
)

// Whoever reaches an open door may do everything behind it. So pqd opens one to other
// machines only if it asks for a login, or if PQ_UNPROTECTED names it.

// addOwnLogin has the server that o configures ask for that login.
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

// checkDoors refuses an embedded server that asks nobody for a login where other machines
// reach it.
func checkDoors(s *settings.Settings, o *server.Options, where string) error {
	if s.Unprotected.Accepts(settings.DoorNATS) || asksForLogin(o) {
		return nil
	}
	for _, listens := range []struct {
		what, host string
		on, asks   bool
	}{
		{"", cmp.Or(o.Host, server.DEFAULT_HOST), true, false},
		{", websocket", o.Websocket.Host, o.Websocket.Port != 0, o.Websocket.Username != "" || o.Websocket.Token != ""},
		{", leafnodes", o.LeafNode.Host, o.LeafNode.Port != 0, o.LeafNode.Username != "" || len(o.LeafNode.Users) > 0 || o.LeafNode.Nkey != ""},
		{", mqtt", o.MQTT.Host, o.MQTT.Port != 0, o.MQTT.Username != "" || o.MQTT.Token != ""},
	} {
		if listens.on && !listens.asks && !(settings.Address{Host: listens.host}).IsLoopback() {
			return settings.Usagef("other machines reach the embedded NATS server at %q (%s%s), and it asks for no login: expected NATS_USER and NATS_PASSWORD, PQ_NATS_CONFIG with users, a loopback address, or PQ_UNPROTECTED=%s if everybody there may do everything",
				listens.host, where, listens.what, settings.DoorNATS)
		}
	}
	return nil
}

// asksForLogin reports whether the server lets nobody in whom its configuration does not
// name.
func asksForLogin(o *server.Options) bool {
	return len(o.Users)+len(o.Nkeys) > 0 || o.Username != "" || o.Authorization != "" ||
		len(o.TrustedOperators) > 0 || o.AuthCallout != nil || o.CustomClientAuthentication != nil || o.TLSVerify
}
