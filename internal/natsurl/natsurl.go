// Package natsurl reads and shows addresses of NATS servers. An address may have a login: a user with a password, or a
// token. What the package shows, and its errors, have no part of it.
package natsurl

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// Parse reads a list of server addresses as the NATS library does. The error repeats no part of an address,
// which may contain a password.
func Parse(list string) ([]*url.URL, error) {
	var servers []*url.URL
	for i, server := range strings.Split(list, ",") {
		if server = strings.TrimSpace(server); server == "" {
			continue
		}
		if !strings.Contains(server, "://") {
			server = "nats://" + server
		}
		parsed, err := url.Parse(server)
		if scheme, _, _ := strings.Cut(server, "://"); slices.Contains(otherSchemes, scheme) {
			return nil, fmt.Errorf("address %d of the list begins with %s://: expected nats://, tls://, ws:// or wss://", i+1, scheme)
		}
		if err != nil || !isServer(parsed) {
			return nil, fmt.Errorf("address %d of the list is malformed: expected nats://<host>:<port>, or tls, ws or wss instead of nats; "+
				"in a user or password, write all but letters and digits as %% and two hexadecimal digits", i+1)
		}
		servers = append(servers, parsed)
	}
	if len(servers) == 0 {
		return nil, errors.New("found no address: expected nats://<host>:<port>")
	}
	return servers, nil
}

// otherSchemes are taken for those of NATS servers. Others are not repeated: what stands there may be a password.
var otherSchemes = []string{"http", "https", "tcp", "ssl", "mqtt", "amqp", "redis"}

// isServer reports whether u is a server's address. A password with an unescaped comma, slash or question mark
// splits an address into parts that are no addresses.
func isServer(u *url.URL) bool {
	if !slices.Contains([]string{"nats", "tls", "ws", "wss"}, u.Scheme) {
		return false
	}
	if u.Port() != "" {
		if _, err := strconv.ParseUint(u.Port(), 10, 16); err != nil {
			return false
		}
	}
	return u.Hostname() != "" && !strings.Contains(u.Path, "@") && u.RawQuery == "" && u.Fragment == ""
}

// Redact replaces the logins in a list of server addresses by xxxxx.
func Redact(list string) string {
	servers, err := Parse(list)
	if err != nil {
		return "xxxxx"
	}
	var shown []string
	for _, server := range servers {
		safe := url.URL{Scheme: server.Scheme, Host: server.Host}
		if server.User != nil {
			safe.User = url.User("xxxxx")
		}
		shown = append(shown, safe.String())
	}
	return strings.Join(shown, ",")
}

// Of is the server that a connection has, as Redact shows it. It is empty while there is none.
func Of(nc interface{ ConnectedUrl() string }) string {
	if server := nc.ConnectedUrl(); server != "" {
		return Redact(server)
	}
	return ""
}
