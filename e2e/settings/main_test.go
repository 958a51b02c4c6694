// Package settings_test checks the settings of a real pqd: logins, permissions, certificates, files.
package settings_test

import (
	"os"
	"testing"

	"github.com/pqbridge/pqbridge/testenv"
)

func TestMain(m *testing.M) { os.Exit(testenv.Main(m)) }
