package settings

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"

	"github.com/pqbridge/pqbridge/subjects"
)

// Quotas are the quotas of a tenant, as PQ_TENANTS has them.
type Quotas struct {
	Queues   int64 `json:"queues"`
	Items    int64 `json:"items"`
	Bytes    int64 `json:"bytes"`
	Requests int64 `json:"requests"`
	Waiting  int64 `json:"waiting"`
}

// usualQuotas hold unless PQ_TENANTS says otherwise. Without them one tenant could use up every bridge.
var usualQuotas = Quotas{Queues: 1000, Waiting: 1000}

// Tenants are the quotas of all tenants, and the tokens that their users show over HTTP.
type Tenants struct {
	usual  Quotas
	own    map[string]Quotas
	Tokens map[string]ExistingFile // of tenants that have one

	hashes map[[sha256.Size]byte]string // of the tokens, to their tenants
}

// Of returns the quotas of a tenant.
func (t *Tenants) Of(tenant string) Quotas {
	if own, is := t.own[tenant]; is {
		return own
	}
	return t.usual
}

// HaveTokens reports whether users of any tenant may use HTTP.
func (t *Tenants) HaveTokens() bool { return len(t.hashes) > 0 }

// ByToken returns the tenant whose token has this hash, "" if there is none. t may be nil.
func (t *Tenants) ByToken(hash [sha256.Size]byte) string {
	if t == nil {
		return ""
	}
	return t.hashes[hash]
}

// ReadTenants reads PQ_TENANTS and the tokens that it names; nil without it.
func (s *Settings) ReadTenants() (*Tenants, error) {
	if s.Tenants == "" {
		return nil, nil
	}
	text, err := os.ReadFile(string(s.Tenants))
	if err != nil {
		return nil, Usagef("PQ_TENANTS: %w", err)
	}
	t, err := parseTenants(text)
	if err == nil && len(t.Tokens) > 0 {
		err = s.readTokens(t)
	}
	if err != nil {
		return nil, Usagef("PQ_TENANTS=%q: %w", s.Tenants, err)
	}
	return t, nil
}

// readTokens reads the tokens of tenants. It refuses them without a token of the operator: every caller without a
// token would count as the operator.
func (s *Settings) readTokens(t *Tenants) error {
	if s.Mode() == ConsoleOff {
		return fmt.Errorf("tenants have tokens, but the console is off: expected PQ_CONSOLE=read or PQ_CONSOLE=admin")
	}
	operator, _, err := s.WebToken()
	if err != nil {
		return err
	}
	if operator == "" {
		return fmt.Errorf("tenants have tokens, and the operator has none: expected PQ_CONSOLE_TOKEN")
	}
	taken := map[string]string{operator: "the operator"}
	for name, file := range t.Tokens {
		token, err := secretIn("token", file)
		if err != nil {
			return fmt.Errorf("tenant %q: %w", name, err)
		}
		if other, is := taken[token]; is {
			return fmt.Errorf("%s and tenant %s have the same token: expected one for each", other, name)
		}
		taken[token] = "tenant " + name
		t.hashes[sha256.Sum256([]byte(token))] = name
	}
	return nil
}

func parseTenants(text []byte) (*Tenants, error) {
	var file struct {
		Default json.RawMessage            `json:"default"`
		Tenants map[string]json.RawMessage `json:"tenants"`
	}
	if err := readObject(text, &file); err != nil {
		return nil, fmt.Errorf("expected an object with default and tenants: %w", err)
	}
	t := &Tenants{usual: usualQuotas, own: make(map[string]Quotas), Tokens: make(map[string]ExistingFile), hashes: make(map[[sha256.Size]byte]string)}
	if err := t.usual.change(file.Default, &t.usual); err != nil {
		return nil, fmt.Errorf("default: %w", err)
	}
	for name, text := range file.Tenants {
		if err := subjects.CheckTenant(name); err != nil {
			return nil, err
		}
		own := struct {
			Quotas
			Token ExistingFile `json:"token"`
		}{Quotas: t.usual}
		if err := own.change(text, &own); err != nil {
			return nil, fmt.Errorf("tenant %q: %w", name, err)
		}
		t.own[name] = own.Quotas
		if own.Token != "" {
			t.Tokens[name] = own.Token
		}
	}
	return t, nil
}

// change takes over the fields of an object, if there is one, into a value of which the quotas are a part.
func (q *Quotas) change(object []byte, whole any) error {
	if object == nil {
		return nil
	}
	if err := readObject(object, whole); err != nil {
		return fmt.Errorf("expected an object with queues, items, bytes, requests and waiting, and that of a tenant also with token: %w", err)
	}
	if min(q.Queues, q.Items, q.Bytes, q.Requests, q.Waiting) < 0 {
		return fmt.Errorf("a quota is negative: expected a number, or 0 for no bound")
	}
	return nil
}
