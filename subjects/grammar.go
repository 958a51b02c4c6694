// Package subjects is the grammar of the subjects that the bridge serves, as listed in
// docs/protocol.md. It parses and builds subjects, and returns the permissions that each
// role needs.
//
// Build reverses Parse, and Parse reverses Build. Errors name the broken rule and what is
// allowed; their texts are short printable ASCII and can be sent to clients.
package subjects

import (
	"fmt"
	"strings"
)

// MaxPrefix bounds the bytes of a prefix.
const MaxPrefix = 128

// sysToken replaces the queue's name in subjects that concern no queue.
const sysToken = "_sys"

// Grammar knows the subjects under one prefix. With a site it also knows the subjects that other
// sites use, which begin with the name of the site. With tenants the name of the tenant
// stands behind the prefix. Get one from [New].
type Grammar struct {
	prefix  string // with the dot that follows it
	site    string // the prefix behind the name of the site; "" without a site
	tenants bool
}

// New returns the grammar under a prefix: one or more tokens of A-Z a-z 0-9 - _,
// joined by dots. The first must not start with _, because NATS keeps inboxes
// and replies there.
func New(prefix string) (Grammar, error) {
	fits := len(prefix) <= MaxPrefix && !strings.HasPrefix(prefix, "_")
	for token := range strings.SplitSeq(prefix, ".") {
		fits = fits && isName(token)
	}
	if !fits {
		return Grammar{}, fmt.Errorf("prefix %s: expected tokens of A-Z a-z 0-9 - _ joined by dots, not starting with _, at most %d bytes in all", quote(prefix), MaxPrefix)
	}
	return Grammar{prefix: prefix + "."}, nil
}

// AtSite returns the grammar that also knows the subjects of a site: its name, a token, stands
// in front of the prefix. One of the two must not lie within the other.
func (g Grammar) AtSite(name string) (Grammar, error) {
	if !isName(name) || name[0] == '_' {
		return Grammar{}, fmt.Errorf("site %s: expected a name of A-Z a-z 0-9 - _, not starting with _", quote(name))
	}
	other, err := New(name + "." + g.Prefix())
	if err == nil && strings.HasPrefix(other.prefix, g.prefix) {
		err = fmt.Errorf("site %s: expected another name than the first token of the prefix %s", quote(name), quote(g.Prefix()))
	}
	if err != nil {
		return Grammar{}, err
	}
	return Grammar{prefix: g.prefix, site: other.prefix, tenants: g.tenants}, nil
}

// WithTenants returns the grammar of subjects that name a tenant behind the prefix. The name of
// a queue is then the name of its tenant, a dot, and its own name: acme.jobs. The subjects of the system have no tenant, and ask
// about all, or have one, and ask about its queues.
func (g Grammar) WithTenants() Grammar {
	g.tenants = true
	return g
}

// OfTenant returns the grammar of a tenant's clients: its name belongs to the prefix, and queues have their own names.
func (g Grammar) OfTenant(name string) (Grammar, error) {
	if err := CheckTenant(name); err != nil {
		return Grammar{}, err
	}
	return Grammar{prefix: g.prefix + name + "."}, nil
}

// HasTenants reports whether the subjects name tenants.
func (g Grammar) HasTenants() bool { return g.tenants }

// Each returns the grammars of the single prefixes: first of the prefix itself, then of the site.
func (g Grammar) Each() []Grammar {
	all := []Grammar{{prefix: g.prefix, tenants: g.tenants}}
	if g.site != "" {
		all = append(all, Grammar{prefix: g.site, tenants: g.tenants})
	}
	return all
}

// Of returns the grammar of the prefix under which a subject was parsed.
func (g Grammar) Of(s Subject) Grammar {
	if s.AtSite {
		return Grammar{prefix: g.site, tenants: g.tenants}
	}
	return Grammar{prefix: g.prefix, tenants: g.tenants}
}

// Rest returns the part of a subject behind the prefix, all of it if it has another prefix.
func (g Grammar) Rest(subject string) string {
	rest, _, _ := g.cut(subject)
	return rest
}

func (g Grammar) cut(subject string) (rest string, atSite, under bool) {
	if rest, under = strings.CutPrefix(subject, g.prefix); under || g.site == "" {
		return rest, false, under
	}
	rest, under = strings.CutPrefix(subject, g.site)
	return rest, under, under
}

// Prefix returns the prefix, without a dot at its end.
func (g Grammar) Prefix() string { return strings.TrimSuffix(g.prefix, ".") }

// All is the pattern of everything under the prefix.
func (g Grammar) All() string { return g.prefix + ">" }

// every is the pattern of all queues.
func (g Grammar) every() string {
	if g.tenants {
		return "*.*"
	}
	return "*"
}

// Acks is the pattern of all settlements.
func (g Grammar) Acks() string { return g.prefix + g.every() + ".ack.>" }

// AcksOf is the pattern of the settlements of leases that one connection granted.
func (g Grammar) AcksOf(conn string) string { return g.prefix + g.every() + ".ack." + conn + ".>" }

// Events is the pattern of a queue's events, or of all queues' when queue is *.
func (g Grammar) Events(queue string) string {
	if queue == every {
		queue = g.every()
	}
	return g.prefix + queue + ".event.*"
}

// SystemEvent is the subject of an event that concerns no queue.
func (g Grammar) SystemEvent(kind string) string { return g.prefix + sysToken + ".event." + kind }

// IsSystemEvent reports whether a subject is the subject of an event, of any kind, that concerns no queue.
func (g Grammar) IsSystemEvent(subject string) bool {
	_, _, under := g.cut(subject)
	return under && strings.Contains(subject, "."+sysToken+".event.")
}

// Pushes match every push, well formed or not.
func (g Grammar) Pushes() []string {
	return []string{g.prefix + g.every() + ".push", g.prefix + g.every() + ".push.>"}
}

// Split returns the name of the queue in a subject, and the part behind it, valid or not.
func (g Grammar) Split(subject string) (queue, rest string) {
	all := g.Rest(subject)
	name, rest, _ := strings.Cut(all, ".")
	if g.tenants && name != sysToken {
		own, behind, _ := strings.Cut(rest, ".")
		return all[:min(len(all), len(name)+1+len(own))], behind
	}
	return name, rest
}
