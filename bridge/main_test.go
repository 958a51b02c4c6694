package bridge_test

import (
	"os"
	"testing"

	"github.com/pqbridge/pqbridge/testenv"
)

func TestMain(m *testing.M) { os.Exit(testenv.RunBeside(m)) }
