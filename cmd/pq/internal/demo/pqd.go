package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/pqbridge/pqbridge/cmd/pq/internal/session"
)

// daemon is a pqd that the demo has started.
type daemon struct {
	nats    string // its address for clients
	console string

	dir   string
	end   context.CancelFunc
	ended chan struct{}
}

// pqd may take so long to start, and to stop before it is killed.
const (
	startLimit = time.Minute
	stopLimit  = 15 * time.Second
)

// start starts the pqd that lies beside pq, or on PATH, on a new store in a temporary folder.
func start(s *session.Session) (*daemon, error) {
	program, err := find(s)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(s.Env["TMPDIR"], "pq-demo-")
	if err != nil {
		return nil, err
	}
	// Ctrl-C has pq delete its queues before pqd ends.
	ctx, end := context.WithCancel(context.WithoutCancel(s.Context))
	cmd := exec.CommandContext(ctx, program)
	log := &journal{ready: make(chan struct{})}
	cmd.Dir, cmd.Env, cmd.Stderr, cmd.WaitDelay = dir, environment(s, dir), log, stopLimit
	d := &daemon{dir: dir, end: end, ended: make(chan struct{})}
	go func() {
		defer close(d.ended)
		log.err = s.Programs.Run(ctx, cmd)
	}()
	late := time.NewTimer(startLimit)
	defer late.Stop()
	select {
	case <-log.ready:
		d.nats, d.console = log.addresses.NATS, log.addresses.HTTP+"/"
		return d, nil
	case <-d.ended:
		err = fmt.Errorf("%s ended before it was ready: %w: %s", program, log.err, log.tail())
	case <-late.C:
		err = fmt.Errorf("%s was not ready after %s: %s", program, startLimit, log.tail())
	case <-s.Context.Done():
		err = s.Context.Err()
	}
	d.stop()
	return nil, err
}

// stop ends pqd and removes its folder.
func (d *daemon) stop() {
	d.end()
	<-d.ended
	_ = os.RemoveAll(d.dir) // a folder that stays is in the system's place for such
}

// find finds pqd. The one beside pq is of the same version.
func find(s *session.Session) (string, error) {
	var folders []string
	if self, err := os.Executable(); err == nil {
		if real, err := filepath.EvalSymlinks(self); err == nil {
			folders = append(folders, filepath.Dir(real))
		}
		folders = append(folders, filepath.Dir(self))
	}
	for _, folder := range append(folders, filepath.SplitList(s.Env["PATH"])...) {
		if program, err := exec.LookPath(filepath.Join(folder, "pqd")); err == nil {
			return filepath.Abs(program)
		}
	}
	return "", errors.New("found no pqd beside pq, nor on PATH")
}

// environment is that of pq without the settings of another pqd.
func environment(s *session.Session, dir string) []string {
	env := []string{
		"PQ_STORE=local:" + filepath.Join(dir, "store"), "PQ_LISTEN=127.0.0.1:0", "PQ_HTTP=127.0.0.1:0",
		"PQ_LOG=json", "PQ_PREFIX=" + s.Global.Prefix,
	}
	for name, value := range s.Env {
		if !strings.HasPrefix(name, "PQ_") && !strings.HasPrefix(name, "NATS_") && !strings.HasPrefix(name, "OTEL_") {
			env = append(env, name+"="+value)
		}
	}
	return env
}

// journal reads the log of pqd.
type journal struct {
	ready     chan struct{} // closed when addresses are known
	addresses struct{ Msg, NATS, HTTP string }
	err       error // how pqd has ended

	mu   sync.Mutex
	text bytes.Buffer
	seen bool
}

// Write implements io.Writer. pqd writes whole lines, and the pipe may part them.
func (j *journal) Write(text []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.seen {
		return len(text), nil
	}
	j.text.Write(text)
	for line := range bytes.Lines(j.text.Bytes()) {
		if json.Unmarshal(line, &j.addresses) == nil && j.addresses.Msg == "ready" {
			j.seen = true
			close(j.ready)
			break
		}
	}
	return len(text), nil
}

// tail is the end of what pqd has said.
func (j *journal) tail() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	lines := strings.Split(strings.TrimSpace(j.text.String()), "\n")
	return lines[len(lines)-1]
}
