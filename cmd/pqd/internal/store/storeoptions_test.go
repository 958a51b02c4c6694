package store

import (
	"testing"

	"github.com/pqbridge/pqbridge/cmd/pqd/internal/settings"
)

// Only the embedded store belongs to one process, whose transactions take a moment. So pops
// depend on what is in front of their items there, whatever the queues are configured to.
func TestStoreOptions(t *testing.T) {
	t.Parallel()
	for engine, embedded := range map[string]bool{"local": true, "fdb": false, "jetstream": false} {
		o := Options(settings.Settings{Store: settings.StoreName{Engine: engine}})
		if o.Strict != embedded || o.Exclusive != embedded {
			t.Errorf("%s: strict %t, exclusive %t, expected %t", engine, o.Strict, o.Exclusive, embedded)
		}
	}
}
