package main

import (
	"io"
	"log/slog"
)

func newLog(s settings, w io.Writer) *slog.Logger {
	options := &slog.HandlerOptions{Level: slog.Level(s.LogLevel)}
	if s.Log == "json" {
		return slog.New(newLimitedLog(slog.NewJSONHandler(w, options)))
	}
	return slog.New(newLimitedLog(slog.NewTextHandler(w, options)))
}
