// Package codec reads the requests of clients, and writes the answers: bytes in, values out, and back.
//
// What it guarantees: each request is read completely, or refused with a failure that says what was expected;
// nothing that a client sends is ignored, or makes a value out of bounds. A token is accepted only as the store's
// bridges made it. The fuzz targets hold it to that.
//
// The package knows neither queues nor lanes, and waits for nothing.
package codec

import "github.com/pqbridge/pqbridge/subjects"

// Wire knows the form of a bridge's messages: their subjects, the tokens of leases, and the size of the answers.
type Wire struct {
	Grammar subjects.Grammar
	Sealer  Sealer
	Limit   Limit
}

// New returns the wire under a prefix of subjects, for a store with a secret. maxPayload is the
// server's.
func New(prefix string, secret []byte, maxPayload func() int64) (*Wire, error) {
	grammar, err := subjects.New(prefix)
	if err != nil {
		return nil, err
	}
	w := &Wire{Grammar: grammar, Limit: Limit{server: maxPayload, prefix: len(prefix)}}
	w.Sealer.init(secret)
	return w, nil
}

// WithTenants makes subjects name tenants.
func (w *Wire) WithTenants() {
	w.Grammar = w.Grammar.WithTenants()
	w.Limit.prefix += subjects.MaxQueue + len(".")
}

// AtSite adds the subjects of the site with this name.
func (w *Wire) AtSite(name string) (err error) {
	if w.Grammar, err = w.Grammar.AtSite(name); err == nil {
		w.Limit.prefix += len(w.Grammar.Each()[1].Prefix()) - len(w.Grammar.Prefix())
	}
	return err
}
