// Package chromium is a browser that tests of a real pqd drive. Tests that need it are skipped where it is missing.
package chromium

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/pqbridge/pqbridge/internal/testkit/tools"
)

// chromium is a browser without a window.
type chromium struct {
	path    string
	profile string // its directory
	cmd     *exec.Cmd
	Exited  chan struct{}
	Stderr  bytes.Buffer // to be read when it has exited
}

// Need skips the test where there is no Chromium. The shell has no window, and takes less than half the time.
func Need(t *testing.T) *chromium {
	t.Helper()
	for _, name := range []string{"chromium-headless-shell", "chromium", "google-chrome"} {
		if path, err := tools.Find(name); err == nil {
			return &chromium{path: path, Exited: make(chan struct{})}
		}
	}
	t.Skip("NOT TESTED IN A BROWSER: there is no chromium")
	return nil
}

// Open shows a page, and allows no other connections.
func (c *chromium) Open(t *testing.T, page string) {
	t.Helper()
	if err := c.start("--disable-quic", page); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
}

// start starts the browser with a profile of its own.
func (c *chromium) start(arguments ...string) (err error) {
	if c.profile, err = os.MkdirTemp("", "pqbridge-browser-"); err != nil {
		return err
	}
	c.cmd = exec.Command(c.path, append([]string{"--headless", "--no-sandbox", "--disable-gpu", "--no-first-run",
		"--disable-dev-shm-usage", "--disable-breakpad", "--disable-background-networking", "--disable-component-update",
		"--disable-sync", "--disable-extensions", "--no-proxy-server", "--user-data-dir=" + c.profile}, arguments...)...)
	c.cmd.Stderr = &c.Stderr
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // it starts processes of its own
	if err := c.cmd.Start(); err != nil {
		return errors.Join(err, os.RemoveAll(c.profile))
	}
	go func() {
		defer close(c.Exited)
		_ = c.cmd.Wait() // it is killed
	}()
	return nil
}

// Close ends the browser and all its processes.
func (c *chromium) Close() {
	_ = syscall.Kill(-c.cmd.Process.Pid, syscall.SIGKILL) // it may have ended already
	<-c.Exited
	_ = os.RemoveAll(c.profile) // its last words may come after that
}
