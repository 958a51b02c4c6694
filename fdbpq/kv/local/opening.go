package local

import (
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/pqbridge/pqbridge/fdbpq/kv/local/internal/logs"
)

// opening opens the store. It lets an open fail where Pebble would end the process: Pebble writes tables in the
// background while it opens a store, and when it cannot record them in its manifest, or sync a directory, it panics
// or calls a function that must not return. No transaction has been answered by then, so nothing is lost.
type opening struct {
	underWay  atomic.Bool
	failed    chan error
	hidden    string // name of a file that the directory does not list; "": none
	abandoned bool   // Pebble's goroutines stay, so the directory stays locked

	disk    *logs.Disk
	salvage bool
	reads   bool // nothing may change
	damages *damages
	reports *reports
	log     *slog.Logger
}

func (o *opening) open(dir string, options *pebble.Options) (*pebble.DB, error) {
	o.underWay.Store(true)
	defer o.underWay.Store(false)
	var store *pebble.DB
	opened := make(chan error, 1)
	go func() {
		var err error
		store, err = pebble.Open(dir, options)
		opened <- err
	}()
	select {
	case err := <-opened:
		return store, err
	case err := <-o.failed:
		o.abandoned = true
		return nil, err
	}
}

// halt makes a running open fail and does not return. If no open runs, it does nothing.
func (o *opening) halt(err error) {
	if !o.underWay.Load() {
		return
	}
	select {
	case o.failed <- err:
	default: // the first failure counts
	}
	select {}
}

// openingDisk is a file system on which an open fails when a directory cannot be synced.
type openingDisk struct {
	vfs.FS
	opening *opening
}

// Unwrap implements vfs.FS.
func (d openingDisk) Unwrap() vfs.FS { return d.FS }

// List implements vfs.FS.
func (d openingDisk) List(dir string) ([]string, error) {
	names, err := d.FS.List(dir)
	return slices.DeleteFunc(names, func(name string) bool { return name != "" && name == d.opening.hidden }), err
}

// OpenDir implements vfs.FS.
func (d openingDisk) OpenDir(name string) (vfs.File, error) {
	f, err := d.FS.OpenDir(name)
	if err != nil {
		return nil, err
	}
	return openingDir{f, d.opening}, nil
}

type openingDir struct {
	vfs.File
	opening *opening
}

// Sync implements vfs.File.
func (d openingDir) Sync() error {
	err := d.File.Sync()
	if err != nil {
		d.opening.halt(err)
	}
	return err
}

// fatalError is an error that Pebble describes. It wraps the error among args.
func fatalError(format string, args []any) error {
	text := fmt.Sprintf(format, args...)
	for _, arg := range args {
		if err, is := arg.(error); is {
			return &describedError{text, err}
		}
	}
	return &describedError{text, nil}
}

// describedError is an error with the text of an error that wraps it.
type describedError struct {
	text  string
	cause error
}

func (e *describedError) Error() string { return e.text }
func (e *describedError) Unwrap() error { return e.cause }
