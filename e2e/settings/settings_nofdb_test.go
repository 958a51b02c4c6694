//go:build !fdb

package settings_test

import (
	"strings"
	"testing"

	"github.com/pqbridge/pqbridge/testenv"
)

func TestFoundationDBNeedsAnotherBuild(t *testing.T) {
	code, _, stderr := testenv.Run(t, []string{"PQ_STORE=fdb:x"})
	if code != 2 {
		t.Errorf("exit code %d, expected 2", code)
	}
	for _, part := range []string{`PQ_STORE="fdb:x"`, "without FoundationDB", "go build -tags fdb ./cmd/pqd", "libfdb_c"} {
		if !strings.Contains(stderr, part) {
			t.Errorf("expected %q in: %s", part, stderr)
		}
	}
}
