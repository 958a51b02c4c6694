package node

import (
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/pqbridge/pqbridge/cmd/pqd/internal/settings"
	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster"
)

// copyDamage is damage in the files of this node's copy. The active node hands over to a node with another copy. The copy itself
// stays as it is until an operator moves it away: then package cluster fetches another one when pqd starts.
type copyDamage struct {
	log      *slog.Logger
	settings settings.Settings
	db       *cluster.DB
	fled     bool // has handed over; only the goroutine of terms uses it
}

// damageEvery is the time between looks whether the copy of the active node is damaged.
const damageEvery = time.Second

// err describes the damage. It is nil if none is known: files are read when they are needed, and the active pqd needs most of
// them.
func (d *copyDamage) err() error {
	found := d.db.Damage()
	if len(found) == 0 {
		return nil
	}
	var files []string
	for _, f := range found {
		files = append(files, f.File)
	}
	return fmt.Errorf("files of this node's copy are damaged: %s: %s", strings.Join(files, ", "), d.settings.AnotherCopy())
}

// handOver returns a hand-over to a node whose copy can be read, or nil. It hands over once: if the other copies are
// damaged too, moving between them does not help.
func (d *copyDamage) handOver() *handover {
	damage := d.err()
	if damage == nil || d.fled {
		return nil
	}
	to, err := d.db.Successor("")
	if err != nil {
		return nil // this copy is better than none
	}
	d.fled = true
	d.log.Error("handing over", "successor", to, "because", damage)
	return &handover{to: to, done: make(chan error, 1)}
}
