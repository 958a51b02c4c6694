package settings

import "log/slog"

// MinFree is how much of a disk stays free of new items: this room is for settlements, which make room, and for
// files that the store writes anew meanwhile.
type MinFree struct {
	Bytes int64
	Set   bool
}

// Unless MinFree is set, it is a twentieth of the disk within these bounds. The lower bound has room for the rows
// that the store keeps in memory and writes to tables at once, 128 MiB at most. On a small disk it is no more than
// a quarter.
const (
	leastMinFree = 256 << 20
	mostMinFree  = 1 << 30
)

func (m *MinFree) Decode(value string) error {
	n, err := parseBytes(value)
	*m = MinFree{Bytes: n, Set: true}
	return err
}

// Of is how much of a disk of this size stays free.
func (m MinFree) Of(size int64) int64 {
	if m.Set {
		return m.Bytes
	}
	return min(mostMinFree, max(size/20, min(leastMinFree, size/4)))
}

// The spare file of a store is a part of what stays free, besides. The upper bound has room for a log and a flush of it, each of the
// 32 MiB that the store keeps in memory. A disk gives up a sixteenth of its size at most.
const (
	spareOfMinFree = 4
	spareOfDisk    = 16
	mostSpare      = 64 << 20
)

// Spare is the size of the spare file on a disk of this size, 0 for none: a smaller one holds nothing that helps.
func (m MinFree) Spare(size int64) int64 {
	n := min(m.Of(size)/spareOfMinFree, size/spareOfDisk, mostSpare)
	if n < fewMinFree {
		return 0
	}
	return n
}

// fewMinFree is smaller than any file of the store. A smaller MinFree keeps no room free: its unit was probably
// forgotten. An explicit 0 keeps none free on purpose.
const fewMinFree = 1 << 20

// Warn logs at each start that such a small MinFree keeps no room free.
func (m MinFree) Warn(log *slog.Logger) {
	if m.Set && m.Bytes > 0 && m.Bytes < fewMinFree {
		log.Warn("PQ_MIN_FREE is less than 1M, which keeps no room for settlements on a full disk: expected a number with a unit, such as 512M, or 0 to keep none", "bytes", m.Bytes)
	}
}
