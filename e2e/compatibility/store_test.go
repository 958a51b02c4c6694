package compatibility_test

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/bridge"
	"github.com/pqbridge/pqbridge/e2e/internal/pqd"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv/local"
	"github.com/pqbridge/pqbridge/testenv"
)

// recording is what a release answered about its store.
type recording struct {
	Made      time.Time // when the store was closed: leases that it has last longer, and ids are remembered
	Exchanges []exchange
	Ready     map[string][]string // payloads that are ready in a queue for as long as nobody pops them
}

func readRecording(t *testing.T, dir string) (r recording) {
	t.Helper()
	if err := json.Unmarshal([]byte(pqd.Read(t, filepath.Join(dir, exchangesFile))), &r); err != nil {
		t.Fatal(err)
	}
	return r
}

// A store that a release has written has no damage, and this program answers all requests about it as
// that release did, at the time at which it was written: leases are settled, repeated pushes and pops
// recognized, limits, turns, rates and schedules go on.
func TestStoresOfReleases(t *testing.T) {
	t.Parallel()
	for _, dir := range releases(t) {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			t.Parallel()
			r := readRecording(t, dir)
			store := unpack(t, filepath.Join(dir, storeFile))
			if code, _, stderr := testenv.Run(t, []string{"PQ_STORE=local:" + store}, "check"); code != 0 {
				t.Fatalf("pqd check: exit code %d, %s", code, stderr)
			}
			for i, found := range answers(t, store, r) {
				if where := r.Exchanges[i].Answer.differs(found); where != "" {
					t.Errorf("%s %v %q: %s", r.Exchanges[i].Subject, r.Exchanges[i].Headers, r.Exchanges[i].Body, where)
				}
			}
		})
	}
}

// pqd serves the store of a release, however long ago it was written: what was ready is delivered.
func TestStoresOfReleasesAreServed(t *testing.T) {
	t.Parallel()
	for _, dir := range releases(t) {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			t.Parallel()
			r := readRecording(t, dir)
			p := testenv.Daemon(t, "PQ_STORE=local:"+unpack(t, filepath.Join(dir, storeFile)))
			nc := p.Connect(t)
			for queue, payloads := range r.Ready {
				left := make(map[string]int)
				for _, payload := range pqd.Drain(t, nc, queue) {
					left[payload]++
				}
				for _, payload := range payloads {
					if left[payload] == 0 {
						t.Errorf("%s: an item of %d bytes, %.20q, is gone", queue, len(payload), payload)
					}
					left[payload]--
				}
			}
			p.Stop(t)
		})
	}
}

// answers are those that a bridge gives about a store at the time at which it was closed.
func answers(t *testing.T, dir string, r recording) (found []answer) {
	t.Helper()
	nc := serveAt(t, dir, r.Made)
	for _, e := range r.Exchanges {
		found = append(found, e.ask(t, nc))
	}
	return found
}

// serveAt serves a store at a time that stands still.
func serveAt(t *testing.T, dir string, now time.Time) *nats.Conn {
	t.Helper()
	db, err := local.Open(dir, local.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	store := testenv.OpenStore(t, db, fdbpq.Options{
		Exclusive: true, Strict: true,
		Wall:    func() time.Time { return now },
		Elapsed: func() time.Duration { return 0 },
	})
	server := testenv.NATS(t)
	b, err := bridge.Start(t.Context(), server.Connect(t, bridge.ConnectOptions(nil)...), store, bridge.Options{Exclusive: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), testenv.Patience())
		defer cancel()
		if err := b.Drain(ctx); err != nil {
			t.Error(err)
		}
	})
	return server.Connect(t)
}

// unpack unpacks a store into a directory of this test.
func unpack(t *testing.T, file string) (dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "store")
	packed, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer packed.Close()
	plain, err := gzip.NewReader(packed)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for entries := tar.NewReader(plain); ; {
		entry, err := entries.Next()
		if errors.Is(err, io.EOF) {
			return dir
		}
		var content []byte
		if err == nil {
			content, err = io.ReadAll(entries)
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, filepath.Base(entry.Name)), content, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// pack packs a store, which has no directories within.
func pack(t *testing.T, dir, file string) {
	t.Helper()
	out, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	compressed, err := gzip.NewWriterLevel(out, gzip.BestCompression)
	if err != nil {
		t.Fatal(err)
	}
	packed := tar.NewWriter(compressed)
	for name, content := range pqd.Files(t, dir) {
		if strings.ContainsRune(name, filepath.Separator) {
			t.Fatalf("the store has %s in a directory of its own", name)
		}
		err := packed.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: int64(len(content))})
		if err == nil {
			_, err = packed.Write(content)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(packed.Close(), compressed.Close(), out.Close()); err != nil {
		t.Fatal(err)
	}
}
