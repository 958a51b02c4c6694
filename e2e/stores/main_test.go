// Package stores_test runs several pqd on FoundationDB, and what holds for every store.
package stores_test

import (
	"os"
	"testing"

	"github.com/pqbridge/pqbridge/testenv"
)

func TestMain(m *testing.M) { os.Exit(testenv.Main(m)) }
