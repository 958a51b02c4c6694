package faults_test

import (
	"net"
	"strings"
	"testing"

	"github.com/pqbridge/pqbridge/testenv"
)

// A process starts again although another program had its port for a moment.
func TestStartWaitsForItsPort(t *testing.T) {
	t.Parallel()
	p := testenv.Daemon(t)
	p.Kill(t)
	other, err := net.Listen("tcp", strings.TrimPrefix(p.HTTP, "http://"))
	if err != nil {
		t.Skip(err) // a third program has it
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		testenv.Await(t, "pqd finds its port in use", func() bool { return strings.Contains(p.Log(), "address already in use") })
		_ = other.Close() // the port is free again
	}()
	p.Start(t)
	<-done
	p.Stop(t)
}
