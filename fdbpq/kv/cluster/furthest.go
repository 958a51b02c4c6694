package cluster

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster/internal/peers"
	"github.com/pqbridge/pqbridge/fdbpq/kv/local"
)

// markSuffix ends the name of the file beside the copy.
const markSuffix = ".furthest"

// furthest keeps the mark on the disk.
type furthest struct {
	*member
	saved peers.Mark // on the disk; of the goroutine that syncs the copy alone
}

// load reads the mark that an earlier process left.
func (f *furthest) load() error {
	content, err := local.ReadNote(f.dir, markSuffix, f.options.Replica)
	if err != nil || content == nil {
		return err
	}
	var m peers.Mark
	if err := json.Unmarshal(content, &m); err != nil {
		return fmt.Errorf("%s%s: expected what this program wrote; without the file an entry may be forgotten that only a lost member had: %w", f.dir, markSuffix, err)
	}
	f.peers.Note(m)
	f.saved = m
	return nil
}

// save writes the mark, unless the copy on this disk is as far.
func (f *furthest) save() {
	own := f.self.now().heartbeat(time.Now())
	m := f.peers.Mark(own.Store)
	if m == f.saved || !m.Follows(peers.Mark{Generation: own.Generation, Entry: own.Synced}) {
		return
	}
	content, err := json.Marshal(m)
	if err == nil {
		err = local.WriteNote(f.dir, markSuffix, content, f.options.Replica)
	}
	if err != nil {
		f.slog.Error("kv/cluster: writing the others' furthest entry failed", "err", err)
		return
	}
	f.saved = m
}
