package gateway

import (
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"net/url"
	"strings"

	"github.com/pqbridge/pqbridge/protocol"
)

// refuses says why the sender of a request may not ask at all, or nil.
func (g *Gateway) refuses(r *http.Request) *refusal {
	if !fromOwnSite(r) {
		return refusef(protocol.CodeForbidden, "the request comes from a page of another site, or a proxy before pqd did not pass the header Host on")
	}
	if g.token == nil {
		return nil
	}
	shown, is := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	sum := sha256.Sum256([]byte(shown))
	if !is || subtle.ConstantTimeCompare(sum[:], g.token[:]) != 1 {
		return refusef(http.StatusUnauthorized, "expected the header Authorization: Bearer <token>, with the token in the file PQ_CONSOLE_TOKEN")
	}
	return nil
}

// fromOwnSite reports whether a browser sent the request for a page of this server, or no
// browser sent it. Browsers say which; pages cannot change what they say. A page of another
// site could otherwise have the browser send requests that change something.
func fromOwnSite(r *http.Request) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "none", "same-origin":
	default:
		return false
	}
	origin := r.Header.Get("Origin")
	if origin == "" {
		return true
	}
	from, err := url.Parse(origin)
	return err == nil && from.Host != "" && from.Host == r.Host
}
