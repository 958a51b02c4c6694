package local

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/pqbridge/pqbridge/fdbpq/kv/local/internal/durable"
)

// remembered is a note as members of a cluster keep it.
type remembered struct {
	Entry  uint64 `json:"entry"`
	Member string `json:"member"`
}

// Whatever bit of a note is another one, nobody believes another note. A sector of zeros, and a note that was cut off, are damage
// as well.
func TestDamagedNote(t *testing.T) {
	t.Parallel()
	opts := Options{FS: vfs.NewMem()}
	want := remembered{713, "127-0-0-1"}
	text, err := json.Marshal(want)
	if err == nil {
		err = WriteNote("copy", ".note", text, opts)
	}
	if err != nil {
		t.Fatal(err)
	}
	written, err := durable.Read(opts.FS, "copy.note")
	if err != nil {
		t.Fatal(err)
	}
	read := func() (got remembered, err error) {
		content, err := ReadNote("copy", ".note", opts)
		if err == nil {
			err = json.Unmarshal(content, &got)
		}
		return got, err
	}
	if got, err := read(); err != nil || got != want {
		t.Fatalf("read %+v, %v, expected what was written", got, err)
	}
	believed := func(what string, damaged []byte) {
		t.Helper()
		if err := durable.Replace(opts.FS, "copy.note", bytes.Clone(damaged)); err != nil {
			t.Fatal(err)
		}
		if got, err := read(); err == nil && got != want {
			t.Errorf("%s: read %+v from %q", what, got, damaged)
		}
	}
	for bit := range 8 * len(written) {
		damaged := append([]byte(nil), written...)
		damaged[bit/8] ^= 1 << (bit % 8)
		believed("a bit is another one", damaged)
	}
	for n := range written {
		believed("it is cut off", written[:n+1])
	}
	believed("zeros", make([]byte, len(written)))
}

// Notes of programs that knew no sums are read, and such a program reads those of this one: it skips the field.
func TestNoteOfEarlierVersion(t *testing.T) {
	t.Parallel()
	opts := Options{FS: vfs.NewMem()}
	text := []byte(`{"entry":713,"member":"127-0-0-1"}`)
	if err := durable.Replace(opts.FS, "copy.note", bytes.Clone(text)); err != nil {
		t.Fatal(err)
	}
	if got, err := ReadNote("copy", ".note", opts); err != nil || string(got) != string(text) {
		t.Errorf("read %s, %v, expected %s", got, err, text)
	}
	var got remembered
	if err := json.Unmarshal(summed(text), &got); err != nil || got != (remembered{713, "127-0-0-1"}) {
		t.Errorf("an earlier program reads %+v, %v", got, err)
	}
	if err := WriteNote("copy", ".note", []byte("713"), opts); err == nil {
		t.Error("a note that is no object was written")
	}
}
