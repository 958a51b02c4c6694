package cluster

import (
	"encoding/json"
	"fmt"

	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster/internal/peers"
	"github.com/pqbridge/pqbridge/fdbpq/kv/local"
)

// markSuffix ends the name of the file beside the copy.
const markSuffix = ".furthest"

// loadMark reads the mark that an earlier process left.
func (d *DB) loadMark() error {
	content, err := local.ReadNote(d.dir, markSuffix, d.options.Replica)
	if err != nil || content == nil {
		return err
	}
	var m peers.Mark
	if err := json.Unmarshal(content, &m); err != nil {
		return fmt.Errorf("%s%s: expected what this program wrote; without the file an entry may be forgotten that only a lost member had: %w", d.dir, markSuffix, err)
	}
	d.peers.Note(m)
	d.saved = m
	return nil
}

// saveMark writes the mark, unless the copy on this disk is as far.
func (d *DB) saveMark() {
	own := d.status.heartbeat()
	m := d.peers.Mark(own.Store)
	if m == d.saved || !m.Follows(peers.Mark{Generation: own.Generation, Entry: own.Synced}) {
		return
	}
	content, err := json.Marshal(m)
	if err == nil {
		err = local.WriteNote(d.dir, markSuffix, content, d.options.Replica)
	}
	if err != nil {
		d.slog.Error("kv/cluster: writing the others' furthest entry failed", "err", err)
		return
	}
	d.saved = m
}
