package clients_test

import (
	"path/filepath"
	"testing"

	"github.com/pqbridge/pqbridge/e2e/internal/nodejs"
	"github.com/pqbridge/pqbridge/e2e/internal/pqd"
	"github.com/pqbridge/pqbridge/testenv"
)

// Everything that clients do with nats.js, over TCP.
func TestNodeClient(t *testing.T) {
	t.Parallel()
	node := nodejs.Need(t)
	p := testenv.Daemon(t)
	nodejs.Judge(t, []byte(pqd.Run(t, node.Path, filepath.Join(nodejs.Scripts, "node.mjs"), p.URL)))
	p.Stop(t)
}
