package logs

import (
	"strconv"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// The names of files of a store: a number follows the prefix, or stands before the suffix.
const (
	logSuffix      = ".log"
	ManifestPrefix = "MANIFEST-"
	MarkerPrefix   = "marker." // of the files that say which manifest counts
)

// parseName reports whether a file is a log or a manifest of the store in dir, and its number. A copy
// of a log is neither.
func parseName(disk vfs.FS, dir, name string) (number uint64, isLog, isManifest bool) {
	if disk.PathDir(name) != dir {
		return 0, false, false
	}
	base := disk.PathBase(name)
	numeral, isLog := strings.CutSuffix(base, logSuffix)
	if !isLog {
		numeral, isManifest = strings.CutPrefix(base, ManifestPrefix)
	}
	number, err := strconv.ParseUint(numeral, 10, 64)
	return number, isLog && err == nil, isManifest && err == nil
}
