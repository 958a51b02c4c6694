// Package faults_test has a pqd killed, stopped, cut off and short of room, with disks that fail, lose
// power and change bits, and judges what its clients saw.
package faults_test

import (
	"os"
	"testing"

	"github.com/pqbridge/pqbridge/testenv"
)

func TestMain(m *testing.M) { os.Exit(testenv.Main(m)) }
