package cluster

import (
	"encoding/json"
	"fmt"

	"github.com/pqbridge/pqbridge/fdbpq/kv/local"
)

// mark is the furthest entry that any member of a store was heard to have. It never goes back within a generation,
// even if that member has lost the entry: the entry did exist. It is on the disk, so it outlives a start of all
// members.
type mark struct {
	Store      string `json:"store"`
	Generation uint64 `json:"generation"`
	Entry      uint64 `json:"entry"`
	Member     string `json:"member"` // that had it
}

func (m mark) follows(o mark) bool {
	return m.Generation > o.Generation || m.Generation == o.Generation && m.Entry > o.Entry
}

// markSuffix ends the name of the file beside the copy.
const markSuffix = ".furthest"

// loadMark reads the mark that an earlier process left.
func (d *DB) loadMark() error {
	content, err := local.ReadNote(d.dir, markSuffix, d.options.Replica)
	if err != nil || content == nil {
		return err
	}
	var m mark
	if err := json.Unmarshal(content, &m); err != nil {
		return fmt.Errorf("%s%s: expected what this program wrote; without the file an entry may be forgotten that only a lost member had: %w", d.dir, markSuffix, err)
	}
	d.peers.note(m)
	d.saved = m
	return nil
}

// saveMark writes the mark, unless the copy on this disk is as far.
func (d *DB) saveMark() {
	own := d.status.heartbeat()
	m := d.peers.mark(own.Store)
	if m == d.saved || !m.follows(mark{Generation: own.Generation, Entry: own.Synced}) {
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
