package logs

import (
	"errors"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// What is written while a sync runs is not synced by it.
func TestSyncCoversWhatWasWrittenBefore(t *testing.T) {
	t.Parallel()
	for name, sync := range map[string]func(*syncedFile) error{"Sync": (*syncedFile).Sync, "SyncData": (*syncedFile).SyncData} {
		file, err := vfs.NewMem().Create("1.log", vfs.WriteCategoryUnspecified)
		if err != nil {
			t.Fatal(err)
		}
		slow := &slowSync{File: file}
		f := &syncedFile{File: slow}
		write := func() error {
			_, err := f.Write([]byte("four"))
			return err
		}
		if err := write(); err != nil {
			t.Fatal(err)
		}
		slow.during = write
		if err := sync(f); err != nil {
			t.Fatal(err)
		}
		if end, synced := f.end.Load(), f.synced.Load(); end != 8 || synced != 4 {
			t.Errorf("%s: %d of %d bytes count as synced, expected 4 of 8", name, synced, end)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
}

// slowSync is a file to which somebody writes while a sync runs.
type slowSync struct {
	vfs.File
	during func() error
}

func (f *slowSync) Sync() error { return errors.Join(f.during(), f.File.Sync()) }

func (f *slowSync) SyncData() error { return errors.Join(f.during(), f.File.SyncData()) }
