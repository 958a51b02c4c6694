package logs

import (
	"fmt"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// Damage: a file of the store does not have the content that was written to it. It wraps kv.ErrDamaged.
type Damage struct {
	File string // its name
	What string // the fault

	// Begin and End are the first and the last key of the file, if they are known.
	// The damage may concern any key between them.
	Begin, End []byte
}

func (d *Damage) Error() string { return fmt.Sprintf("%v: %s: %s", kv.ErrDamaged, d.File, d.What) }

// Unwrap lets errors.Is find kv.ErrDamaged.
func (d *Damage) Unwrap() error { return kv.ErrDamaged }
