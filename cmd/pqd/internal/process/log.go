package process

import (
	"io"
	"log/slog"

	"github.com/pqbridge/pqbridge/cmd/pqd/internal/settings"
)

func NewLog(s settings.Settings, w io.Writer) *slog.Logger {
	options := &slog.HandlerOptions{Level: slog.Level(s.LogLevel), ReplaceAttr: errorText}
	if s.Log == "json" {
		return slog.New(newLimitedLog(slog.NewJSONHandler(w, options)))
	}
	return slog.New(newLimitedLog(slog.NewTextHandler(w, options)))
}

// errorText has an error be what it says. As text slog would write all that it knows, which for one
// of the embedded store is the stack of each place that it came through.
func errorText(_ []string, a slog.Attr) slog.Attr {
	if err, is := a.Value.Any().(error); is {
		a.Value = slog.StringValue(err.Error())
	}
	return a
}
