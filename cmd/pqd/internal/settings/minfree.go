package settings

import "log/slog"

// MinFree is how much of a disk stays free of new items: what is left is for settlements,
// which make room, and for the files that the store writes anew meanwhile.
type MinFree struct {
	Bytes int64
	Set   bool
}

// Unless MinFree is set, it is a twentieth of the disk within these bounds. What the store
// has in memory and writes to tables at once, 128 MiB at most, fits into the lower one. Of
// a small disk it is no more than a quarter.
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

// fewMinFree is less than one file of the store has: a smaller MinFree keeps nothing free, and is a number whose unit was
// forgotten. 0 means it.
const fewMinFree = 1 << 20

// Warn says at each start that so little keeps no room.
func (m MinFree) Warn(log *slog.Logger) {
	if m.Set && m.Bytes > 0 && m.Bytes < fewMinFree {
		log.Warn("PQ_MIN_FREE is less than 1M, which keeps no room for settlements on a full disk: expected a number with a unit, such as 512M, or 0 to keep none", "bytes", m.Bytes)
	}
}
