// Package codec reads the requests of clients, and writes the answers: bytes in, values out, and back.
//
// What it guarantees: each request is read completely, or refused with a failure that says what was expected;
// nothing that a client sends is ignored, or makes a value out of bounds. A token is accepted only as the store's
// bridges made it. The fuzz targets hold it to that.
//
// The package knows neither queues nor turns, and waits for nothing.
package codec

import (
	"encoding/json"
	"strings"

	"github.com/pqbridge/pqbridge/bridge/internal/failure"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/subjects"
)

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

// CheckConfig checks the size of a configuration, and the names of queues in it. The core checks everything else.
func CheckConfig(object []byte) *failure.Failure {
	if f := CheckDefinition(object); f != nil {
		return f
	}
	var config struct {
		DeadLetter      string `json:"dead_letter"`
		DeadLettersFrom string `json:"dead_letters_from"`
		HandOver        string `json:"hand_over"`
	}
	if json.Unmarshal(object, &config) != nil {
		return nil // the core refuses it
	}
	if config.DeadLetter != "" {
		if err := subjects.CheckQueue(config.DeadLetter); err != nil {
			return failure.Newf(400, "configuration: dead_letter: %s", err)
		}
	}
	if f := checkQueues("dead_letters_from", config.DeadLettersFrom); f != nil {
		return f
	}
	return checkQueues("hand_over", config.HandOver)
}

// checkQueues checks a list of queues.
func checkQueues(field, names string) *failure.Failure {
	if names == "" || names == "*" {
		return nil
	}
	for name := range strings.SplitSeq(names, ",") {
		if err := subjects.CheckQueue(name); err != nil {
			return failure.Newf(400, "configuration: %s: expected names of queues separated by commas, or *: %s", field, err)
		}
	}
	return nil
}

// KeySettings are the settings of a key, as they are answered.
func KeySettings(k *fdbpq.KeySettings) protocol.KeySettings {
	s := protocol.KeySettings{Limit: k.Limit, Weight: k.Weight, Paused: k.Paused}
	if k.Rate != nil {
		s.Rate = new(k.Rate.String())
	}
	if k.CostRate != nil {
		s.CostRate = new(k.CostRate.String())
	}
	return s
}
