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

// caller is who asks: the operator's users together, or those of one tenant. A tenant's requests are those that its
// clients send over NATS: every subject begins with its name, whatever a path says. What one caller watches
// is looked at apart from the others', so that slow answers to it hold up nobody else.
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

// tenants are the callers that are tenants and have asked for something. The operator knows them all by name.
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

// callerOf returns who sends a request, or says why they may not ask at all.
func (g *Gateway) callerOf(r *http.Request) (*caller, *refusal) {
	if !fromOwnSite(r) {
		return nil, refusef(protocol.CodeForbidden, "the request comes from a page of another site, or a proxy before pqd did not pass the header Host on")
	}
	if g.token == nil {
		return g.operator, nil
	}
	if shown, is := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); is {
		sum := sha256.Sum256([]byte(shown))
		// A tenant may have what was the operator's: the file has another one, which a restart reads.
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

// refuses says why the caller has no such route, or nil.
func (c *caller) refuses(r *route) *refusal {
	if c.tenant == "" || !r.operator {
		return nil
	}
	return refusef(protocol.CodeForbidden, "%s is about all tenants: expected the operator's token", r.path)
}

// Caller returns the tenant that sends a request to another page, "" for the operator. It answers a request that
// it would refuse, and reports whether there is anything left to answer.
func (g *Gateway) Caller(w http.ResponseWriter, r *http.Request) (tenant string, may bool) {
	c, why := g.callerOf(r)
	if why != nil {
		setAnswerHeaders(w)
		why.write(w)
		return "", false
	}
	return c.tenant, true
}
