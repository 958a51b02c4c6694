package gateway

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/subjects"
)

// auth says who sends a request, by the token that it shows.
type auth struct {
	operator   *caller
	token      *[sha256.Size]byte // the hash of the operator's; nil: requests need no token
	tokenIn    string             // where tokens are
	tenantOf   func(hash [sha256.Size]byte) string
	newSampler func(*caller) *sampler

	mu      sync.Mutex
	tenants map[string]*caller // tenants that have sent a request. The operator names any queue of theirs.
}

// caller is the sender of a request: the operator's users together, or the users of one tenant. A tenant's requests
// become requests of a tenant's NATS client: every subject begins with the tenant's name, whatever a path says. The
// paths that one caller watches are read apart from the paths of others, so that slow answers to one caller delay
// no other.
type caller struct {
	tenant  string // "": the operator
	grammar subjects.Grammar
	sampler *sampler
}

func newAuth(o Options, grammar subjects.Grammar, newSampler func(*caller) *sampler) *auth {
	a := &auth{
		tokenIn:  cmp.Or(o.TokenIn, "the line in the file PQ_CONSOLE_TOKEN"),
		tenantOf: o.TenantOf, newSampler: newSampler, tenants: make(map[string]*caller),
	}
	if o.Tenants {
		a.tokenIn += ", or that of a tenant in PQ_TENANTS"
	}
	if o.Token != "" {
		a.token = new(sha256.Sum256([]byte(o.Token)))
	}
	if a.tenantOf == nil {
		a.tenantOf = func([sha256.Size]byte) string { return "" }
	}
	a.operator = a.newCaller("", grammar)
	return a
}

func (a *auth) newCaller(tenant string, grammar subjects.Grammar) *caller {
	c := &caller{tenant: tenant, grammar: grammar}
	c.sampler = a.newSampler(c)
	return c
}

// tenant returns the caller that is a tenant.
func (a *auth) tenant(name string) (*caller, *refusal) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if c := a.tenants[name]; c != nil {
		return c, nil
	}
	grammar, err := a.operator.grammar.OfTenant(name)
	if err != nil {
		return nil, badRequest(err)
	}
	c := a.newCaller(name, grammar)
	a.tenants[name] = c
	return c, nil
}

// authenticate returns the sender of a request, or refuses the request, whatever it asks for.
func (a *auth) authenticate(r *http.Request) (*caller, *refusal) {
	if !fromOwnSite(r) {
		return nil, refusef(protocol.CodeForbidden, "the request comes from a page of another site, or a proxy before pqd did not pass the header Host on")
	}
	if a.token == nil {
		return a.operator, nil
	}
	if shown, is := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); is {
		sum := sha256.Sum256([]byte(shown))
		// A tenant may have the operator's former token: the operator's file has another one, which a restart
		// reads.
		if tenant := a.tenantOf(sum); tenant != "" {
			return a.tenant(tenant)
		}
		if subtle.ConstantTimeCompare(sum[:], a.token[:]) == 1 {
			return a.operator, nil
		}
		return nil, refusef(http.StatusUnauthorized, "this is not the token: expected %s", a.tokenIn)
	}
	return nil, refusef(http.StatusUnauthorized, "expected the token: %s, as the header Authorization: Bearer <token>", a.tokenIn)
}

// refuses says why the caller may not use a route, or nil.
func (c *caller) refuses(r *route) *refusal {
	if c.tenant == "" || !r.operator {
		return nil
	}
	return refusef(protocol.CodeForbidden, "%s is about all tenants: expected the operator's token", r.path)
}

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

// otherUserKey is the key of a context's value: a func() bool that says whether a program of another user has the other end of the
// connection.
type otherUserKey struct{}

// ConnContext is that of an http.Server whose gateway serves some requests only to programs that are near.
func ConnContext(ctx context.Context, conn net.Conn) context.Context {
	here, err := netip.ParseAddrPort(conn.LocalAddr().String())
	if err != nil {
		return ctx
	}
	there, err := netip.ParseAddrPort(conn.RemoteAddr().String())
	if err != nil {
		return ctx
	}
	return context.WithValue(ctx, otherUserKey{}, sync.OnceValue(func() bool { return isOtherUser(here, there) }))
}

// Headers by which proxies say that they pass a request on, and the beginnings of others.
var (
	proxyHeaders = []string{
		"Forwarded", "Via", "X-Real-Ip", "X-Client-Ip", "X-Cluster-Client-Ip", "X-Proxyuser-Ip", "X-Original-Host", "X-Original-Url", "True-Client-Ip", "Cdn-Loop",
	}
	proxyPrefixes = []string{"X-Forwarded-", "X-Envoy-", "X-Amzn-", "X-Azure-", "Cf-", "Fly-", "Tailscale-"}
)

// isProxied reports whether a header says that a proxy passes the request on.
func isProxied(name string) bool {
	return slices.Contains(proxyHeaders, name) || slices.ContainsFunc(proxyPrefixes, func(p string) bool { return strings.HasPrefix(name, p) })
}

// near reports whether a program of pqd's user called this machine itself. A proxy on the machine has a loopback address, too, and
// its clients are anybody, who may send any header: but it runs as another user, says that it passes a request on, speaks HTTP/1.0,
// or leaves the name of the host as it came. A name other than localhost counts as that: whoever answers for the names of a network
// may have a browser call this machine by it.
func near(r *http.Request) bool {
	if isOther, is := r.Context().Value(otherUserKey{}).(func() bool); is && isOther() || !r.ProtoAtLeast(1, 1) {
		return false
	}
	for name := range r.Header {
		if isProxied(name) {
			return false
		}
	}
	host := r.Host
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	address, err := netip.ParseAddr(host)
	return err == nil && address.Unmap().IsLoopback() || strings.EqualFold(host, "localhost")
}
