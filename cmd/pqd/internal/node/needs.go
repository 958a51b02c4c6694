package node

import (
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pqbridge/pqbridge/bridge"
	"github.com/pqbridge/pqbridge/cmd/pqd/internal/link"
	"github.com/pqbridge/pqbridge/cmd/pqd/internal/settings"
)

// Needs are what a node needs. They belong to the caller, who closes the connections.
type Needs struct {
	Settings settings.Settings
	Version  string // of this program
	Logger   *slog.Logger
	Metrics  prometheus.Registerer
	Link     *link.Link     // of the bridge
	Log      *Log           // of the store
	Bridge   bridge.Options // of the bridge of each term
}
