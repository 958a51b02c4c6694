package checkpoint

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"log/slog"
	"sync"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster/internal/chain"
	"github.com/pqbridge/pqbridge/fdbpq/kv/local"
)

// keepCheckpoint is how long a checkpoint stays after the last request for it.
const keepCheckpoint = 10 * time.Minute

// Owner is the member that offers its copy.
type Owner struct {
	Copy       func() *local.Replica
	Position   func() (at chain.Head, first uint64) // of the copy, and the first entry of the log
	MaxReply   func() int                           // how many bytes a reply may have
	Background func(work func())                    // starts work that the end of the member waits for
	Log        *slog.Logger
}

// Archive is the checkpoint that a member offers. It makes one when it is asked.
type Archive struct {
	owner Owner

	mu     sync.Mutex
	making bool
	id     string     // "": there is none
	at     chain.Head // where this member was before it made the checkpoint
	made   *local.Checkpoint
	asked  time.Time
}

// NewArchive returns an archive without a checkpoint.
func NewArchive(of Owner) *Archive { return &Archive{owner: of} }

// Answer answers a request of another member; nil means that it cannot.
func (a *Archive) Answer(message []byte) []byte {
	var r request
	if json.Unmarshal(message, &r) != nil {
		return nil
	}
	if r.File == "" {
		return a.offer()
	}
	a.mu.Lock()
	offered, id := a.made, a.id
	a.asked = time.Now()
	a.mu.Unlock()
	if id == "" || id != r.Checkpoint || r.Size <= 0 || r.Size > a.owner.MaxReply()-chain.SealSize {
		return nil
	}
	part := make([]byte, r.Size)
	if err := offered.ReadAt(r.File, part, r.Offset); err != nil {
		a.owner.Log.Warn("kv/cluster: reading a checkpoint failed", "file", r.File, "err", err)
		return nil
	}
	return chain.Seal(part)
}

// offer returns the list of a checkpoint from which the log goes on, and begins to make
// one if there is none.
func (a *Archive) offer() []byte {
	at, first := a.owner.Position()
	a.mu.Lock()
	defer a.mu.Unlock()
	var m manifest
	switch {
	case a.making:
	case a.current(at.Generation, first):
		a.asked = time.Now()
		m = manifest{Checkpoint: a.id, Generation: at.Generation, Entry: a.at.Entry, Files: a.made.Files()}
	default:
		a.making, a.id = true, ""
		a.owner.Background(a.make)
	}
	message, err := json.Marshal(m)
	if err != nil {
		return nil
	}
	return message
}

// current reports whether a log of a generation, which begins with entry first, goes on from
// the checkpoint. The caller holds mu.
func (a *Archive) current(generation, first uint64) bool {
	return a.id != "" && a.at.Generation == generation && a.at.Entry+1 >= first
}

// make makes the checkpoint.
func (a *Archive) make() {
	at, _ := a.owner.Position()
	made, err := a.owner.Copy().Checkpoint()
	var id chain.ID
	if err == nil {
		_, err = rand.Read(id[:])
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.making = false
	if err != nil {
		a.owner.Log.Warn("kv/cluster: making a checkpoint for another member failed", "err", err)
		return
	}
	a.id, a.at, a.made, a.asked = hex.EncodeToString(id[:]), at, made, time.Now()
}

// Forget is called when the checkpoint is gone.
func (a *Archive) Forget() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.id = ""
}

// Drop removes the checkpoint once requests for it have stopped.
func (a *Archive) Drop() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.id == "" || time.Since(a.asked) < keepCheckpoint {
		return
	}
	a.id = ""
	if err := a.made.Remove(); err != nil {
		a.owner.Log.Warn("kv/cluster: removing an old checkpoint failed", "err", err)
	}
}

// Members fetch checkpoints from each other when the log no longer has the entries that they lack. A request asks
// for the list of a checkpoint's files, or for a part of a file.
type request struct {
	Checkpoint string `json:"checkpoint,omitempty"`
	File       string `json:"file,omitempty"`
	Offset     int64  `json:"offset,omitempty"`
	Size       int    `json:"size,omitempty"`
}

// manifest answers a request for the list of files. A request for a part of a file is answered by the bytes behind
// their checksum.
type manifest struct {
	Checkpoint string                 `json:"checkpoint"` // "": ask again soon
	Generation uint64                 `json:"generation"` // of the log
	Entry      uint64                 `json:"entry"`      // of the log; the checkpoint has at least this entry
	Files      []local.CheckpointFile `json:"files"`
}
