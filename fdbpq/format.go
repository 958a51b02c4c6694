package fdbpq

import (
	"encoding/hex"
	"fmt"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/internal/tuple"
)

// FormatVersion is the layout of the rows that this version reads and writes.
const FormatVersion = 1

// load reads the rows that identify the store, and writes them into an empty one. It
// returns store time as it was last written.
func (s *Store) load(tx kv.Tx, fresh [48]byte) (timeRecord, error) {
	rows, err := tx.GetAll([][]byte{row(spaceFormat), row(spaceSecret), row(spaceTime), row(spaceWall)})
	if err != nil {
		return timeRecord{}, err
	}
	format, secret, now, wall := rows[0], rows[1], rows[2], rows[3]
	if format == nil {
		foreign, err := tx.Range([]byte{0x00}, []byte{0xff}, kv.RangeOptions{Limit: 1})
		if err != nil {
			return timeRecord{}, err
		}
		if len(foreign) > 0 {
			return timeRecord{}, fmt.Errorf("%w: there is data, but no format version: expected an empty key space or a pqbridge store", ErrFormat)
		}
		format = tuple.AppendString(tuple.AppendInt(nil, FormatVersion), hex.EncodeToString(fresh[:16]))
		secret = fresh[16:]
		now = kv.EncodeInteger(uint64(s.clock.wall().UnixNano()))
		tx.Set(row(spaceFormat), format)
		tx.Set(row(spaceSecret), secret)
		tx.Set(row(spaceTime), now)
		tx.Set(row(spaceWall), now)
	}
	version, rest, err := tuple.ConsumeInt(format)
	if err != nil {
		return timeRecord{}, fmt.Errorf("%w: the version row is damaged: %w", ErrFormat, err)
	}
	if version != FormatVersion {
		return timeRecord{}, fmt.Errorf("%w: the store has version %d, this program reads and writes %d", ErrFormat, version, FormatVersion)
	}
	if s.id, _, err = tuple.ConsumeString(rest); err != nil {
		return timeRecord{}, fmt.Errorf("%w: the version row is damaged: %w", ErrFormat, err)
	}
	s.secret = secret
	return timeRecord{storeTime: int64(kv.DecodeInteger(now)), wall: int64(kv.DecodeInteger(wall))}, nil
}
