package local

import (
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// markerFS looks at what is safe on the disk when a manifest is about to count.
type markerFS struct {
	*vfs.MemFS
	*testing.T
	seen, removed int
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

func (d *markerFS) Remove(name string) error {
	if before, _, is := strings.Cut(name, ".manifest."); is {
		d.removed++
		safe := d.CrashClone(vfs.CrashCloneCfg{})
		names, err := safe.List(safe.PathDir(name))
		left := slices.DeleteFunc(names, func(other string) bool {
			other = safe.PathJoin(safe.PathDir(name), other)
			return other == name || !strings.HasPrefix(other, before+".manifest.")
		})
		if err != nil || len(left) == 0 {
			d.Errorf("%s is about to be removed, and no other marker is on the disk: %v", name, err)
		}
	}
	return d.MemFS.Remove(name)
}

// A manifest is on the disk before its marker is made, and that before the marker
// of another one goes: of changes that are not synced a disk may keep one, and a
// marker of nothing, or no marker, would be a store that no pqd opens.
func TestManifestBeforeMarker(t *testing.T) {
	t.Parallel()
	disk := &markerFS{MemFS: vfs.NewCrashableMem(), T: t}
	for range 2 {
		db := mustOpen(t, Options{FS: disk})
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if disk.seen < 2 || disk.removed == 0 {
		t.Errorf("%d markers were made and %d removed, expected one for each start", disk.seen, disk.removed)
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
