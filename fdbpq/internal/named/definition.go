package named

import (
	"encoding/json"
	"fmt"

	"github.com/pqbridge/pqbridge/internal/tuple"
)

// Noun is how errors call a kind of definitions, such as "link".
type Noun string

// CheckVersion returns an error unless a row has the version that this program reads.
func (n Noun) CheckVersion(version, known int64) error {
	if version != known {
		return fmt.Errorf("%s has version %d: this program reads %d", n, version, known)
	}
	return nil
}

// Pack packs the fields that an administrator sets.
func (n Noun) Pack(version int64, fields any) ([]byte, error) {
	text, err := json.Marshal(fields)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", n, err)
	}
	return tuple.AppendBytes(tuple.AppendInt(nil, version), text), nil
}

// Parse reads the fields that Pack has packed. rest is the row behind them.
func (n Noun) Parse(row []byte, known int64, fields any) (rest []byte, err error) {
	r := tuple.Read(row)
	version, text := r.Int(), r.Bytes()
	if err := r.Err(); err != nil {
		return nil, err
	}
	if err := n.CheckVersion(version, known); err != nil {
		return nil, err
	}
	return r.Rest(), json.Unmarshal(text, fields)
}
