package process

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// A panic does not end with 2, the code of wrong settings, after which service managers
// do not start pqd again. Neither does SIGQUIT.
func TestPanicEndsBySignal(t *testing.T) {
	t.Parallel()
	const role = "PQD_TEST_PANIC"
	switch os.Getenv(role) {
	case "panic":
		AbortOnPanic()
		done := make(chan struct{})
		go func() {
			defer close(done)
			panic("a bug")
		}()
		<-done
	case "quit":
		AbortOnPanic()
		if err := syscall.Kill(os.Getpid(), syscall.SIGQUIT); err != nil {
			t.Fatal(err)
		}
		select {}
	}
	for end, expected := range map[string]func(syscall.WaitStatus) bool{
		"panic": func(s syscall.WaitStatus) bool { return s.Signaled() && s.Signal() == syscall.SIGABRT },
		"quit":  func(s syscall.WaitStatus) bool { return s.ExitStatus() == 1 },
	} {
		cmd := exec.Command(os.Args[0], "-test.run=^TestPanicEndsBySignal$")
		cmd.Dir = t.TempDir() // for a core dump
		cmd.Env = append(os.Environ(), role+"="+end, "TMPDIR="+cmd.Dir)
		out, err := cmd.CombinedOutput()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || !expected(exit.Sys().(syscall.WaitStatus)) || !strings.Contains(string(out), "goroutine ") {
			t.Errorf("%s: %v\n%s", end, err, out)
		}
	}
}

func TestShutdownIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- Await(ctx, make(chan error), ShutdownLimit) }()

		select {
		case err := <-ended:
			t.Fatalf("ended without being asked to: %v", err)
		case <-time.After(time.Hour): // of the bubble's time
		}
		asked := time.Now()
		cancel()
		if err := <-ended; err == nil {
			t.Error("no error after a shutdown that did not finish")
		}
		if took := time.Since(asked); took != ShutdownLimit {
			t.Errorf("gave up after %s, expected %s", took, ShutdownLimit)
		}
	})
}
