package explain

import (
	"encoding/json"
	"slices"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/protocol"
)

// asking is who asks for the items of a queue, as bridges tell each other.
type asking struct {
	Waiting int          `json:"waiting"` // pops that wait
	Bands   []fdbpq.Band `json:"bands"`   // for which they wait, or for which somebody has asked lately
}

func (a *asking) add(b asking) {
	a.Waiting += b.Waiting
	for _, band := range b.Bands {
		if !slices.Contains(a.Bands, band) {
			a.Bands = append(a.Bands, band)
		}
	}
}

// maxTold bounds the bands of which a bridge tells: of pops that wait, and of those of a while ago.
const maxTold = 2 * protocol.MaxBands

// readAsking reads what another bridge has told. An answer without the number of waiting pops, as a bridge of another version may
// send, is not ok: it would count as no pops.
func readAsking(answer []byte) (_ asking, ok bool) {
	var told struct {
		Waiting *int         `json:"waiting"`
		Bands   []fdbpq.Band `json:"bands"`
	}
	if json.Unmarshal(answer, &told) != nil || told.Waiting == nil || len(told.Bands) > maxTold {
		return asking{}, false
	}
	n := *told.Waiting
	if n < 0 || n > 0 && len(told.Bands) == 0 {
		return asking{}, false
	}
	return asking{n, told.Bands}, true
}
