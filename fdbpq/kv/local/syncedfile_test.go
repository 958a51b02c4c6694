package local

import (
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// What is written while a sync runs is not synced by it.
func TestSyncCoversWhatWasWrittenBefore(t *testing.T) {
	t.Parallel()
	for name, sync := range map[string]func(*syncedFile) error{"Sync": (*syncedFile).Sync, "SyncData": (*syncedFile).SyncData} {
		disk := &diskFS{FS: vfs.NewMem()}
		file, err := disk.Create("1.log", vfs.WriteCategoryUnspecified)
		if err != nil {
			t.Fatal(err)
		}
		f := &syncedFile{File: file}
		write := func() error {
			_, err := f.Write([]byte("four"))
			return err
		}
		if err := write(); err != nil {
			t.Fatal(err)
		}
		disk.onSync = write
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
