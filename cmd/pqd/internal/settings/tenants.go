package settings

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/pqbridge/pqbridge/subjects"
)

// Quotas are those of a tenant, as PQ_TENANTS has them.
type Quotas struct {
	Queues   int64 `json:"queues"`
	Items    int64 `json:"items"`
	Bytes    int64 `json:"bytes"`
	Requests int64 `json:"requests"`
	Waiting  int64 `json:"waiting"`
}

// usualQuotas hold where PQ_TENANTS does not say otherwise. Without them one tenant could take what all others
// need of every bridge.
var usualQuotas = Quotas{Queues: 1000, Waiting: 1000}

// Tenants are the quotas of all tenants.
type Tenants struct {
	usual Quotas
	own   map[string]Quotas
}

// Of returns the quotas of a tenant.
func (t *Tenants) Of(tenant string) Quotas {
	if own, is := t.own[tenant]; is {
		return own
	}
	return t.usual
}

// ReadTenants reads PQ_TENANTS; nil without it.
func (s *Settings) ReadTenants() (*Tenants, error) {
	if s.Tenants == "" {
		return nil, nil
	}
	text, err := os.ReadFile(string(s.Tenants))
	if err != nil {
		return nil, Usagef("PQ_TENANTS: %w", err)
	}
	t, err := parseTenants(text)
	if err != nil {
		return nil, Usagef("PQ_TENANTS=%q: %w", s.Tenants, err)
	}
	return t, nil
}

func parseTenants(text []byte) (*Tenants, error) {
	var file struct {
		Default json.RawMessage            `json:"default"`
		Tenants map[string]json.RawMessage `json:"tenants"`
	}
	if err := readObject(text, &file); err != nil {
		return nil, fmt.Errorf("expected an object with default and tenants: %w", err)
	}
	t := &Tenants{usual: usualQuotas, own: make(map[string]Quotas)}
	if err := t.usual.change(file.Default); err != nil {
		return nil, fmt.Errorf("default: %w", err)
	}
	for name, text := range file.Tenants {
		if err := subjects.CheckTenant(name); err != nil {
			return nil, err
		}
		own := t.usual
		if err := own.change(text); err != nil {
			return nil, fmt.Errorf("tenant %q: %w", name, err)
		}
		t.own[name] = own
	}
	return t, nil
}

// change takes over the quotas in an object, if there is one.
func (q *Quotas) change(object []byte) error {
	if object == nil {
		return nil
	}
	if err := readObject(object, q); err != nil {
		return fmt.Errorf("expected an object with queues, items, bytes, requests and waiting: %w", err)
	}
	if min(q.Queues, q.Items, q.Bytes, q.Requests, q.Waiting) < 0 {
		return fmt.Errorf("a quota is negative: expected a number, or 0 for no bound")
	}
	return nil
}

// readObject reads a text in JSON that has no other fields than a value.
func readObject(text []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	err := d.Decode(into)
	if err == nil {
		if _, more := d.Token(); more != io.EOF {
			err = fmt.Errorf("there is more behind the object")
		}
	}
	return err
}
