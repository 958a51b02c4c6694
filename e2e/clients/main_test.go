// Package clients_test has the clients for Go, JavaScript and Python, nats.js, the examples and the
// pages' commands talk to a real pqd.
package clients_test

import (
	"os"
	"testing"

	"github.com/pqbridge/pqbridge/testenv"
)

func TestMain(m *testing.M) { os.Exit(testenv.Main(m)) }
