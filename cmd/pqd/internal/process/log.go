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

// errorText logs an error as its text. By default slog would write all details of the error, which for an error of
// the embedded store is the stack of each place that it passed.
func errorText(_ []string, a slog.Attr) slog.Attr {
	if err, is := a.Value.Any().(error); is {
		a.Value = slog.StringValue(err.Error())
	}
	return a
}
