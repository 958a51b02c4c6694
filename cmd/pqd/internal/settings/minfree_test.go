package settings

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
)

func TestMinFreeWithoutUnit(t *testing.T) {
	t.Parallel()
	for value, warns := range map[string]bool{"10": true, "1023K": true, "1M": false, "512M": false, "0": false} {
		var m MinFree
		if err := m.Decode(value); err != nil {
			t.Fatal(err)
		}
		var said bytes.Buffer
		m.Warn(slog.New(slog.NewTextHandler(&said, nil)))
		if got := strings.Contains(said.String(), "PQ_MIN_FREE"); got != warns {
			t.Errorf("PQ_MIN_FREE=%s: pqd warns: %t, %s", value, got, said.String())
		}
	}
	var unset MinFree
	var said bytes.Buffer
	if unset.Warn(slog.New(slog.NewTextHandler(&said, nil))); said.Len() > 0 {
		t.Errorf("pqd warns of what is not set: %s", said.String())
	}
}
