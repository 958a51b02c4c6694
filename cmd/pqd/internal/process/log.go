package process

import (
	"io"
	"log/slog"

	"github.com/pqbridge/pqbridge/cmd/pqd/internal/settings"
)

func NewLog(s settings.Settings, w io.Writer) *slog.Logger {
	options := &slog.HandlerOptions{Level: slog.Level(s.LogLevel)}
	if s.Log == "json" {
		return slog.New(newLimitedLog(slog.NewJSONHandler(w, options)))
	}
	return slog.New(newLimitedLog(slog.NewTextHandler(w, options)))
}
