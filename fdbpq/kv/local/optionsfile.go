package local

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strconv"
	"strings"

	"github.com/cockroachdb/pebble/v2"
)

const optionsPrefix = "OPTIONS-"

// checkOptionsFile checks the file with the options that Pebble runs with. Pebble refuses to
// open a store whose newest options file it cannot read. The program has the options too,
// so such a file is removed, or hidden if nothing may change.
func (o *opening) checkOptionsFile(dir string, options *pebble.Options) error {
	names, err := o.disk.List(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // the store is new
	}
	if err != nil {
		return err
	}
	newest, number := "", uint64(0)
	for _, name := range names {
		numeral, is := strings.CutPrefix(name, optionsPrefix)
		if n, err := strconv.ParseUint(numeral, 10, 64); is && err == nil && n >= number {
			newest, number = name, n
		}
	}
	if newest == "" {
		return nil
	}
	path := o.disk.PathJoin(dir, newest)
	problem := o.readOptionsFile(dir, path, options)
	if problem == nil {
		return nil
	}
	if o.reads {
		o.hidden = newest
		return nil
	}
	o.log.Warn("kv/local: removing a damaged file that holds no data", "file", path, "err", problem.Error())
	if err := o.disk.Remove(path); err != nil {
		return fmt.Errorf("%s is damaged and holds no data, but removing it failed: %w", path, err)
	}
	return nil
}

// readOptionsFile returns the reason for which Pebble would refuse the file.
func (o *opening) readOptionsFile(dir, path string, options *pebble.Options) error {
	f, err := o.disk.Open(path)
	if err != nil {
		return err
	}
	text, err := io.ReadAll(f)
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	return options.CheckCompatibility(dir, string(text))
}
