package main

import (
	"os"
	"testing"

	"github.com/pqbridge/pqbridge/testenv"
)

// asPQ is the variable that makes this program pq, for tests that need a process.
const asPQ = "PQ_TEST_AS_PQ"

func TestMain(m *testing.M) {
	if os.Getenv(asPQ) != "" {
		main()
	}
	os.Exit(testenv.RunBeside(m))
}
