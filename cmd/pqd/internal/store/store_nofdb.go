//go:build !fdb

package store

import (
	"context"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pqbridge/pqbridge/cmd/pqd/internal/settings"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

func openFDB(_ context.Context, name settings.StoreName, _ *slog.Logger) (kv.DB, prometheus.Collector, error) {
	return nil, nil, settings.Usagef("PQ_STORE=%q: this pqd was built without FoundationDB, whose client needs cgo and libfdb_c: expected local:<directory>, or a pqd built with go build -tags fdb ./cmd/pqd", name.String())
}
