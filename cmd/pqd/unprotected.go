package main

import (
	"cmp"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/nats-io/nats-server/v2/server"
)

// Whoever reaches an open door may do everything behind it. So pqd opens one to other
// machines only if it asks for a login, or if PQ_UNPROTECTED names it.

// doors are values of PQ_UNPROTECTED.
type doors []string

const (
	doorNATS = "nats" // the embedded NATS server
	doorHTTP = "http" // the HTTP interface and the console
	doorLog  = "log"  // the log of PQ_STORE=jetstream:<name>, to clients of its NATS servers
)

func (d *doors) Decode(value string) error {
	for name := range strings.SplitSeq(value, ",") {
		name = strings.TrimSpace(name)
		if !slices.Contains([]string{doorNATS, doorHTTP, doorLog}, name) {
			return fmt.Errorf("found %q: expected nats, http or log, separated by commas", name)
		}
		*d = append(*d, name)
	}
	return nil
}

// accepts reports whether the operator has named an open door.
func (d doors) accepts(door string) bool { return slices.Contains(d, door) }

// warn says at each start what is open.
func (d doors) warn(log *slog.Logger) {
	for _, door := range d {
		log.Warn("PQ_UNPROTECTED: "+map[string]string{
			doorNATS: "other machines need no login to use the embedded NATS server, and all queues",
			doorHTTP: "other machines need no token to use the HTTP interface and the console",
			doorLog:  "NATS clients may be able to read and purge the log of the store, which has all items",
		}[door], "door", door)
	}
}

// ownLogin reports whether NATS_USER and NATS_PASSWORD are the login that the embedded
// server asks all clients for.
func (s *settings) ownLogin() bool {
	return s.NATS.URL == "" && s.NATSConfig == "" && s.NATS.User != ""
}

// addOwnLogin has the server that o configures ask for that login.
func addOwnLogin(o *server.Options, s settings) error {
	if !s.ownLogin() {
		return nil
	}
	if len(s.NATS.Password) < minSecret {
		return usagef("NATS_PASSWORD guards the embedded NATS server: expected at least %d characters, such as the output of: openssl rand -hex 32", minSecret)
	}
	o.Users = []*server.User{{Username: s.NATS.User, Password: s.NATS.Password}}
	return nil
}

// checkDoors refuses an embedded server that asks nobody for a login where other machines
// reach it.
func (s *settings) checkDoors(o *server.Options, where string) error {
	if s.Unprotected.accepts(doorNATS) || asksForLogin(o) {
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
		if listens.on && !listens.asks && !(address{host: listens.host}).isLoopback() {
			return usagef("other machines reach the embedded NATS server at %q (%s%s), and it asks for no login: expected NATS_USER and NATS_PASSWORD, PQ_NATS_CONFIG with users, a loopback address, or PQ_UNPROTECTED=%s if everybody there may do everything",
				listens.host, where, listens.what, doorNATS)
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
