package main

import (
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
)

// A web page can make the browser call pqd under the page's own name, once that name
// resolves to 127.0.0.1, and read the answer (DNS rebinding). The Host header still
// has that name. So pqd's pages answer only under an address, under a name that no
// public name server resolves, under the host's own name, or under a name that the
// operator has allowed.

// hostNames are names by which pqd may be called; * is any.
type hostNames []string

const hostNotAllowed = "host name not allowed: expected an address, localhost, or a name in PQ_HTTP_HOSTS"

// guard refuses requests for other host names.
func (allowed hostNames) guard(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !allowed.allow(r.Host) {
			http.Error(w, hostNotAllowed, http.StatusMisdirectedRequest)
			return
		}
		h.ServeHTTP(w, r)
	})
}

func (allowed hostNames) allow(hostport string) bool {
	host := hostport
	if name, _, err := net.SplitHostPort(hostport); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.ToLower(strings.Trim(host, "[]")), ".")
	switch {
	case host == "", net.ParseIP(host) != nil:
		return true // HTTP/1.0 has none; a browser always sends one
	case !strings.Contains(host, "."), strings.HasSuffix(host, ".localhost"):
		return true // localhost, a container's, a service's
	}
	if own, err := os.Hostname(); err == nil && strings.EqualFold(own, host) {
		return true
	}
	return slices.ContainsFunc(allowed, func(name string) bool { return name == "*" || strings.EqualFold(name, host) })
}
