package main

import (
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
)

// A page that somebody opens in a browser can have the browser ask pqd, under a
// name of the page's own that has come to mean 127.0.0.1, and read the answer.
// The Host header still says that name. So what pqd tells about itself is for
// those who call it by an address, by a name that no public name server gives
// out, by its own, or by one that the operator has allowed.

// hostNames are names by which pqd may be called; * is any.
type hostNames []string

// guard refuses pages to those who call pqd by another name.
func (allowed hostNames) guard(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !allowed.allow(r.Host) {
			http.Error(w, "Host is none of pqd's: expected an address, localhost, or a name that PQ_HTTP_HOSTS allows", http.StatusMisdirectedRequest)
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
