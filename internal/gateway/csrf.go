package gateway

import (
	"net/http"
	"net/url"
)

// fromOwnSite reports whether a browser sent the request for a page of this server, or no browser sent it. Browsers
// say which, and pages cannot change that. A page of another site could otherwise make the browser send requests
// that change something.
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
