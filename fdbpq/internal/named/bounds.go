package named

import (
	"fmt"
	"strings"

	"github.com/pqbridge/pqbridge/fdbpq/internal/layout"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/internal/tuple"
)

// Bounds are how many definitions there may be.
type Bounds struct {
	Space   string // has one row for each
	Queue   int    // of a queue
	Store   int    // of a store
	TooMany error  // which an error about them wraps
}

// tenantPart is the part of a store's definitions that a tenant may have: one of so many.
const tenantPart = 10

// Room refuses one definition too many in a home. It reads by snapshot, so concurrent transactions may exceed a bound.
func (b Bounds) Room(r kv.Reader, h Home) error {
	type bound struct {
		prefix []byte
		most   int
		of     string
	}
	bounds := []bound{{h.Prefix(b.Space), b.Queue, "queue"}, {layout.Row(b.Space), b.Store, "store"}}
	if dot := strings.LastIndexByte(h.Queue, '.'); dot >= 0 {
		all := layout.QueueRow(b.Space, h.Queue[:dot+1])
		bounds = append(bounds, bound{all[:len(all)-1], b.Store / tenantPart, "tenant"})
	}
	for _, bound := range bounds {
		begin, end := tuple.Range(bound.prefix)
		rows, err := r.Range(begin, end, kv.RangeOptions{Limit: bound.most})
		if err != nil {
			return err
		}
		if len(rows) == bound.most {
			return fmt.Errorf("%w: the %s has %d, which is all it may have", b.TooMany, bound.of, bound.most)
		}
	}
	return nil
}
