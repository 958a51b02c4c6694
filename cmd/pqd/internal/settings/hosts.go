package settings

import (
	"errors"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strings"
)

// A web page can make the browser call pqd under the page's own name, once that name resolves to an address of pqd,
// and read the answer (DNS rebinding). The Host header still has that name. So pqd's pages answer only under an
// address, under the machine's own name, or under a name that the operator has allowed.
//
// A name without a dot may belong to a page, too: the machine that gives out the search domain of a network, such
// as an access point, resolves all such names. So over loopback, where pqd asks for no token, no name without a dot
// counts except localhost. Beyond loopback containers and services have names without a dot, and pqd serves queues
// only with a token.

// HostNames are names by which pqd may be called; * is any.
type HostNames []string

const HostNotAllowed = "host name not allowed: expected an address, localhost, the name of the machine, or a name in PQ_HTTP_HOSTS"

func (n *HostNames) Decode(value string) error {
	for name := range strings.SplitSeq(value, ",") {
		name = strings.TrimSpace(name)
		if name == "" || strings.ContainsAny(name, ":/ ") {
			return errors.New("expected names of hosts separated by commas, such as pqd.example.com, or *")
		}
		*n = append(*n, name)
	}
	return nil
}

// Guard refuses requests for other host names.
func (allowed HostNames) Guard(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !allowed.Allow(r) {
			http.Error(w, HostNotAllowed, http.StatusMisdirectedRequest)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// Allow goes by the host that the client has called; what a proxy says about the host does not count.
func (allowed HostNames) Allow(r *http.Request) bool {
	host := r.Host
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	if _, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")); err == nil {
		return true
	}
	switch {
	case host == "", host == "localhost":
		return true // HTTP/1.0 has none; a browser always sends one
	case !overLoopback(r) && (!strings.Contains(host, ".") || strings.HasSuffix(host, ".localhost")):
		return true // a container's, a service's
	}
	if own, err := os.Hostname(); err == nil && strings.EqualFold(own, host) {
		return true
	}
	return slices.ContainsFunc(allowed, func(name string) bool { return name == "*" || strings.EqualFold(name, host) })
}

// overLoopback reports whether a request came to a loopback address, whatever PQ_HTTP says.
func overLoopback(r *http.Request) bool {
	to, is := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	return !is || to.IP.IsLoopback()
}
