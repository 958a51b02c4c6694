package checkpoint

import "github.com/pqbridge/pqbridge/fdbpq/kv/local"

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
