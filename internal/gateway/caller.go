package gateway

import (
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"strings"
	"sync"

	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/subjects"
)

// caller is the sender of a request: the operator's users together, or the users of one tenant. A tenant's requests
// become requests of a tenant's NATS client: every subject begins with the tenant's name, whatever a path says. The
// paths that one caller watches are read apart from the paths of others, so that slow answers to one caller delay
// no other.
type caller struct {
	tenant  string // "": the operator
	grammar subjects.Grammar
	sampler *sampler
}

func (g *Gateway) newCaller(tenant string, grammar subjects.Grammar) *caller {
	c := &caller{tenant: tenant, grammar: grammar}
	c.sampler = newSampler(g.running, g.look(c))
	return c
}

// tenants are the callers that are tenants and have sent a request. The operator names any queue of theirs.
type tenants struct {
	mu    sync.Mutex
	known map[string]*caller
}

// tenant returns the caller that is a tenant.
func (g *Gateway) tenant(name string) (*caller, *refusal) {
	g.tenants.mu.Lock()
	defer g.tenants.mu.Unlock()
	if c := g.tenants.known[name]; c != nil {
		return c, nil
	}
	grammar, err := g.operator.grammar.OfTenant(name)
	if err != nil {
		return nil, badRequest(err)
	}
	c := g.newCaller(name, grammar)
	if g.tenants.known == nil {
		g.tenants.known = make(map[string]*caller)
	}
	g.tenants.known[name] = c
	return c, nil
}

// callerOf returns the sender of a request, or says why it may not ask at all.
func (g *Gateway) callerOf(r *http.Request) (*caller, *refusal) {
	if !fromOwnSite(r) {
		return nil, refusef(protocol.CodeForbidden, "the request comes from a page of another site, or a proxy before pqd did not pass the header Host on")
	}
	if g.token == nil {
		return g.operator, nil
	}
	if shown, is := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); is {
		sum := sha256.Sum256([]byte(shown))
		// A tenant may have the operator's former token: the operator's file has another one, which a restart
		// reads.
		if tenant := g.tenantOf(sum); tenant != "" {
			return g.tenant(tenant)
		}
		if subtle.ConstantTimeCompare(sum[:], g.token[:]) == 1 {
			return g.operator, nil
		}
		return nil, refusef(http.StatusUnauthorized, "this is not the token: expected %s", g.tokenIn)
	}
	return nil, refusef(http.StatusUnauthorized, "expected the token: %s, as the header Authorization: Bearer <token>", g.tokenIn)
}

// refuses says why the caller may not use a route, or nil.
func (c *caller) refuses(r *route) *refusal {
	if c.tenant == "" || !r.operator {
		return nil
	}
	return refusef(protocol.CodeForbidden, "%s is about all tenants: expected the operator's token", r.path)
}

// Caller returns the tenant that sends a request to another page, "" for the operator. If it refuses the request,
// it answers it and returns false.
func (g *Gateway) Caller(w http.ResponseWriter, r *http.Request) (tenant string, may bool) {
	c, why := g.callerOf(r)
	if why != nil {
		setAnswerHeaders(w)
		why.write(w)
		return "", false
	}
	return c.tenant, true
}
