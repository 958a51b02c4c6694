package local

import (
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Nothing is written into a log of the format that Pebble makes a store in.
func TestFirstLogIsOfTheNewestFormat(t *testing.T) {
	t.Parallel()
	disk := vfs.NewMem()
	db := openMem(t, Options{FS: disk})
	mustUpdate(t, db, set("a", "1"))
	head := make([]byte, 7) // checksum, length, kind
	f, err := disk.Open(fmt.Sprintf("db/%06d.log", db.disk.Synced().Log))
	if err != nil {
		t.Fatal(err)
	}
	_, err = io.ReadFull(f, head)
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	if kind := head[6]; kind < 9 || kind > 12 {
		t.Errorf("the first record is of kind %d, expected one that says how far the log was synced", kind)
	}
}
