package logs

import (
	"errors"
	"io"

	"github.com/cockroachdb/pebble/v2/record"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// newLogWriter calls record.NewLogWriter, whose number type is internal to Pebble.
func newLogWriter[Number ~uint64](construct func(io.Writer, Number, record.LogWriterConfig) *record.LogWriter, w io.Writer, number uint64) *record.LogWriter {
	return construct(w, Number(number), record.LogWriterConfig{
		WriteWALSyncOffsets: func() bool { return false },
		QueueSemChan:        make(chan struct{}, 1),
	})
}

// readableLog returns a copy of a log with all readable records, those after damage included.
func readableLog(disk vfs.FS, name string, number uint64) (vfs.File, error) {
	memory := vfs.NewMem()
	f, err := memory.Create("rest", vfs.WriteCategoryUnspecified)
	if err != nil {
		return nil, err
	}
	w := newLogWriter(record.NewLogWriter, f, number)
	var whole []byte
	var writing error
	open, end := false, int64(0)
	_, err = scanFile(disk, name, true, number, func(c Chunk) {
		next := c.At-end < chunkHeadNew // only padding lies between the two
		if open = c.First || open && next; !open {
			return
		}
		if c.First {
			whole = whole[:0]
		}
		whole, end = append(whole, c.Content...), c.End
		if c.Last {
			open = false
			if _, err := w.WriteRecord(whole); err != nil {
				writing = err
			}
		}
	})
	if err := errors.Join(err, writing, w.Close()); err != nil {
		return nil, err
	}
	return memory.Open("rest")
}
