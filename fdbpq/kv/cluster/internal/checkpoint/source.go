package checkpoint

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster/internal/chain"
	"github.com/pqbridge/pqbridge/fdbpq/kv/local"
)

// askEvery is how often a member is asked that is making its checkpoint.
const askEvery = 300 * time.Millisecond

// Source is a member that has a checkpoint.
type Source struct {
	Member   string
	Ask      func(ctx context.Context, request []byte) (reply []byte, err error)
	MaxReply func() int // how many bytes a reply may have
}

// label is on the disk beside the files that have arrived: whose they are.
type label struct {
	Member     string
	Checkpoint string
}

// Fetch fetches a checkpoint from which a log goes on: one of a generation, which begins with entry first.
func (s Source) Fetch(ctx context.Context, in *local.Incoming, generation, first uint64) error {
	var m manifest
	for {
		reply, err := s.ask(ctx, request{})
		if err != nil {
			return err
		}
		if err := json.Unmarshal(reply, &m); err != nil {
			return err
		}
		if m.Checkpoint != "" {
			break
		}
		select {
		case <-time.After(askEvery):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if m.Generation != 0 && m.Generation != generation || m.Entry+1 < first { // 0: from a version that knows one generation
		return chain.ErrBehind
	}
	// The files here may come from the member that was asked before: files of two checkpoints have the same names.
	content, err := in.Label()
	if err != nil {
		return err
	}
	var begun label
	if content != nil && json.Unmarshal(content, &begun) != nil {
		begun = label{} // the label was cut off
	}
	if begun != (label{Member: s.Member, Checkpoint: m.Checkpoint}) {
		content, err := json.Marshal(label{Member: s.Member, Checkpoint: m.Checkpoint})
		if err != nil {
			return err
		}
		if err := in.Restart(content); err != nil {
			return err
		}
	}
	for _, file := range m.Files {
		if err := s.fetchFile(ctx, in, m.Checkpoint, file); err != nil {
			return err
		}
	}
	return nil
}

// fetchFile fetches a file, unless it is here. A file that was cut off begins anew.
func (s Source) fetchFile(ctx context.Context, in *local.Incoming, checkpoint string, file local.CheckpointFile) error {
	if there, err := in.Has(file.Name); there || err != nil {
		return err
	}
	var offset int64
	return in.Put(file.Name, func() ([]byte, error) {
		size := min(int64(s.MaxReply()-chain.SealSize), file.Size-offset)
		if size <= 0 {
			return nil, nil
		}
		reply, err := s.ask(ctx, request{Checkpoint: checkpoint, File: file.Name, Offset: offset, Size: int(size)})
		if err != nil {
			return nil, err
		}
		part := chain.Unseal(reply)
		if int64(len(part)) != size {
			return nil, fmt.Errorf("%s: %w", file.Name, chain.ErrDamaged)
		}
		offset += size
		return part, nil
	})
}

// ask sends a request. A member that cannot answer it replies with nothing.
func (s Source) ask(ctx context.Context, r request) (reply []byte, err error) {
	message, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	reply, err = s.Ask(ctx, message)
	if err == nil && len(reply) == 0 {
		err = errors.New("it does not have that checkpoint any more")
	}
	return reply, err
}
