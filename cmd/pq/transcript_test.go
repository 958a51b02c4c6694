package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/bridge"
	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/testenv"
)

// The files in testdata are sessions in a terminal, each with a bridge of its own.
// Their notation is that of testenv.Transcript.
func TestTranscripts(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("found %d transcripts: %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			var o bridge.Options
			if filepath.Base(file) == "source.txt" {
				o.Remotes = orders(t, "b", "high")
			}
			w := newTerminal(t, o)
			if filepath.Base(file) == "explain.txt" {
				w.hang(t, "calls", "worker-3")
			}
			transcript := testenv.InProcess("pq", func(args []string, stdin string) (string, string, int) {
				ctx, cancel := context.WithTimeout(t.Context(), testenv.Patience())
				defer cancel()
				var stdout, stderr bytes.Buffer
				code := run(ctx, args, w.env, strings.NewReader(stdin), &stdout, &stderr)
				return stdout.String(), stderr.String(), code
			}, map[string]string{"DIR": w.dir})
			for _, step := range testenv.Transcript(t, file) {
				transcript.Run(t, step)
			}
		})
	}
}

// terminal runs commands.
type terminal struct {
	store *fdbpq.Store
	nc    *nats.Conn
	dir   string
	env   []string
}

func newTerminal(t *testing.T, options ...bridge.Options) *terminal {
	t.Helper()
	o := bridge.Options{}
	if len(options) > 0 {
		o = options[0]
	}
	o.StoreName = "local:./pq-data"
	b := testenv.Bridge(t, o)
	dir := t.TempDir()
	return &terminal{
		store: b.Store,
		nc:    b.NATS.Connect(t),
		dir:   dir,
		env:   []string{"HOME=" + dir, "NATS_URL=" + b.NATS.URL(), "NATS_TIMEOUT=" + testenv.Patience().String(), "PATH=" + os.Getenv("PATH")},
	}
}

// does runs a command that succeeds, and returns what it says.
func (w *terminal) does(t *testing.T, args ...string) string {
	t.Helper()
	code, text := pq(t, w.env, args...)
	if code != 0 {
		t.Fatalf("pq %s: exit code %d: %s", args, code, text)
	}
	return text
}

// hang makes a queue of whose keys each has an item at a worker that hangs, and another one that waits for it.
func (w *terminal) hang(t *testing.T, queue, holder string) {
	t.Helper()
	c, err := client.New(w.nc)
	if err != nil {
		t.Fatal(err)
	}
	q := c.Queue(queue)
	if _, err := q.Configure(t.Context(), client.ConfigChange{KeyOrder: new(true)}); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"acme", "ajax"} {
		for range 2 {
			if _, err := q.Push(t.Context(), nil, client.Key(key)); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := q.Pop(t.Context(), client.Min, client.Lease(time.Hour), client.Holder(holder)); err != nil {
			t.Fatal(err)
		}
	}
}
