package recipe

import (
	"bytes"
	"testing"

	"github.com/pqbridge/pqbridge/fdbpq"
)

// The row of a request may be damaged: reading returns what was written, or an error.
func FuzzRequest(f *testing.F) {
	request := Request{sel: fdbpq.Selection{End: fdbpq.Max, Band: &fdbpq.Band{Low: -1, High: 1}, Limit: 5}, lease: 7}
	f.Add(request.pack(5))
	f.Add([]byte("\x05nonsense"))
	f.Fuzz(func(t *testing.T, b []byte) {
		due, sel, lease, err := parseRequest(b)
		if err != nil {
			return
		}
		if again := (&Request{sel: sel, lease: lease}).pack(due); !bytes.HasPrefix(b, again) {
			t.Errorf("%x is read as %+v, which is written as %x", b, sel, again)
		}
	})
}
