//go:build !linux

package local

import (
	"errors"

	"github.com/cockroachdb/pebble/v2/vfs"
)

func reserve(vfs.File, int64) error { return errors.ErrUnsupported }
