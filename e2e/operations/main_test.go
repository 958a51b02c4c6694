// Package operations_test checks what operators see and install: HTTP, metrics, alerts, dashboards,
// traces, and the files of deploy.
package operations_test

import (
	"os"
	"testing"

	"github.com/pqbridge/pqbridge/testenv"
)

func TestMain(m *testing.M) { os.Exit(testenv.Main(m)) }
