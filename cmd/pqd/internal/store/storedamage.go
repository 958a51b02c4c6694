package store

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pqbridge/pqbridge/cmd/pqd/internal/settings"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/fdbpq/kv/local"
)

// Damage reports the damage of an embedded store to health checks, metrics and clients. The zero value reports
// none, for stores without such files.
type Damage struct {
	db    *local.DB
	store *fdbpq.Store

	mu    sync.Mutex
	files int // that texts describe
	texts []string
}

// Of has the damage of a store reported from now on.
func (d *Damage) Of(db *local.DB, store *fdbpq.Store) { d.db, d.store = db, store }

// namesLimit bounds the search for the names of the concerned queues.
const namesLimit = 2 * time.Second

// Describe returns a line a file.
func (d *Damage) Describe() []string {
	if d.db == nil {
		return nil
	}
	found := d.db.Damage()
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(found) != d.files {
		d.files, d.texts = len(found), nil
		for _, file := range found {
			d.texts = append(d.texts, fmt.Sprintf("%s is damaged, which concerns %s", filepath.Base(file.File), d.concerned(&file)))
		}
	}
	return d.texts
}

// maxNames bounds how many queues are named.
const maxNames = 10

// concerned names the queues of which the file may have rows.
func (d *Damage) concerned(file *local.Damage) string {
	if len(file.Begin) == 0 {
		return "any queue"
	}
	ctx, cancel := context.WithTimeout(context.Background(), namesLimit)
	defer cancel()
	var names []string
	err := d.db.View(ctx, func(r kv.Reader) (err error) {
		names, err = d.store.QueuesBetween(r, file.Begin, file.End)
		return err
	})
	more := ""
	if n := len(names) - maxNames; n > 0 {
		names, more = names[:maxNames], fmt.Sprintf(", and perhaps %d more", n)
	}
	switch {
	case err != nil:
		return "perhaps any queue: which there are cannot be read"
	case len(names) == 0:
		return "no queue, but the store's own rows"
	}
	return "perhaps the queues " + strings.Join(names, ", ") + more
}

// Err describes the known damage. It is nil if there is none.
func (d *Damage) Err() error {
	if texts := d.Describe(); len(texts) > 0 {
		return fmt.Errorf("the store is damaged: %s", strings.Join(texts, "; "))
	}
	return nil
}

// AdviseDamage adds a remedy to an error about a damaged store, or about a node's damaged copy, for which other
// nodes have a good one.
func AdviseDamage(err error, s settings.Settings) error {
	switch {
	case !errors.Is(err, kv.ErrDamaged):
		return err
	case s.Shared():
		return fmt.Errorf("%w: %s", err, s.AnotherCopy())
	}
	return fmt.Errorf("%w: restore a backup, or run pqd salvage <directory> to write out the readable items; see \"The store is damaged\" in docs/runbook.md, which pq help runbook prints", err)
}

// DamagedFiles is the number of damaged files of a store, or of a node's copy, for Prometheus.
func DamagedFiles(files int) prometheus.Metric {
	return prometheus.MustNewConstMetric(storeDamaged, prometheus.GaugeValue, float64(files))
}

var storeDamaged = prometheus.NewDesc("pq_store_damaged_files", "Files of the store that were found to be damaged since pqd started.", nil, nil)
