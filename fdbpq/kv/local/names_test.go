package local

import (
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// markerFS looks at what is safe on the disk when a manifest is about to count.
type markerFS struct {
	*vfs.MemFS
	*testing.T
	seen int
}

func (d *markerFS) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	_, manifest, is := strings.Cut(name, "marker.manifest.")
	if is {
		d.seen++
		_, manifest, _ = strings.Cut(manifest, ".")
		safe := d.CrashClone(vfs.CrashCloneCfg{})
		if _, err := safe.Stat(safe.PathJoin(safe.PathDir(name), manifest)); err != nil {
			d.Errorf("%s is about to be made: %v", name, err)
		}
	}
	return d.MemFS.Create(name, category)
}

// A manifest is on the disk before its marker is made: of two names that are not
// synced a disk may keep one, and a marker of nothing would be a store that no
// pqd opens.
func TestManifestBeforeMarker(t *testing.T) {
	t.Parallel()
	disk := &markerFS{MemFS: vfs.NewCrashableMem(), T: t}
	for range 2 {
		db := mustOpen(t, Options{FS: disk})
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if disk.seen < 2 {
		t.Errorf("%d manifests were made, expected one for each start", disk.seen)
	}
}

// All directories that were made for a store are on the disk, not the last one
// alone.
func TestDirectoriesAreDurable(t *testing.T) {
	t.Parallel()
	for _, dir := range []string{"/srv/queues/store", "/srv/store", "/srv"} {
		disk := vfs.NewCrashableMem()
		for range 2 {
			if err := makeDirectory(disk, dir); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := disk.CrashClone(vfs.CrashCloneCfg{}).Stat(dir); err != nil {
			t.Errorf("%s after a power loss: %v", dir, err)
		}
	}
}
