package testenv

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/internal/history"
)

// Judge fails the test over a history that breaks a promise, and writes it out.
func Judge(t testing.TB, operations []history.Operation, bridges history.Bridges) {
	t.Helper()
	findings := history.Judge(operations, bridges)
	if len(findings) == 0 {
		return
	}
	for _, f := range findings[:min(len(findings), 5)] {
		t.Errorf("%s", f)
	}
	t.Errorf("%d findings: %s", len(findings), keep(t, operations, findings[0].Excerpt(operations)))
}

// Search is Judge for a history that is short enough to search for an order.
func Search(t testing.TB, operations []history.Operation) {
	t.Helper()
	holds, err := history.Linearizable(operations, Most)
	switch {
	case err != nil:
		t.Errorf("%v: %s", err, keep(t, operations, nil))
	case !holds:
		t.Errorf("no order of these operations explains the answers: %s", keep(t, operations, operations))
	}
}

// keep writes a history to a file, and draws an excerpt.
func keep(t testing.TB, operations, excerpt []history.Operation) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "pqbridge-history-")
	if err != nil {
		t.Fatal(err)
	}
	name, page := filepath.Join(dir, "history.jsonl"), filepath.Join(dir, "history.html")
	if err := history.Write(name, operations); err != nil {
		t.Error(err)
	}
	if err := history.Draw(page, excerpt, 10*time.Second); err != nil {
		t.Error(err)
	}
	return fmt.Sprintf("%s has the history, %s shows it; judge it again with go test ./cmd/pqd -run TestHistory -pq.history=%s", name, page, name)
}
