// Package performance_test measures a real pqd. Its loads are run by make, not with the other tests.
package performance_test

import (
	"os"
	"testing"

	"github.com/pqbridge/pqbridge/testenv"
)

func TestMain(m *testing.M) { os.Exit(testenv.Main(m)) }
