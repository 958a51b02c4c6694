package cluster_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster"
)

var flagRecord = flag.Bool("pq.golden", false, "write what three members of this version leave behind to testdata, when records have a new format")

// TestRecord writes what later versions have to read: do it for a new format only.
func TestRecord(t *testing.T) {
	if !*flagRecord {
		t.Skip("only with -pq.golden")
	}
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 3)
		defer w.end()
		w.log.Identity, w.log.Entry = "log 1", 700
		said := make(map[string][]byte) // the last heartbeat of each member in each role
		var mu sync.Mutex
		stop, err := w.network.Listen("recorder", func(message []byte) {
			mu.Lock()
			defer mu.Unlock()
			var from struct{ Member, Role string }
			if err := json.Unmarshal(message, &from); err != nil {
				t.Error(err)
			}
			said[from.Member+" "+from.Role] = bytes.Clone(message)
		}, func([]byte) []byte { return nil })
		if err != nil {
			t.Fatal(err)
		}
		defer stop()
		for _, n := range w.nodes {
			n.start()
		}
		copied, term := w.active()
		w.write(term, "a", "1")
		w.write(term, "parts", strings.Repeat("0123456789", 150))
		for _, change := range []func(tx kv.Tx){
			func(tx kv.Tx) {
				tx.Add([]byte("count"), 5)
				tx.Max([]byte("most"), 5)
				for _, row := range []string{"gone x", "row/1 r1", "row/2 r2"} {
					key, value, _ := strings.Cut(row, " ")
					tx.Set([]byte(key), []byte(value))
				}
			},
			func(tx kv.Tx) {
				tx.Add([]byte("count"), 2)
				tx.Max([]byte("most"), 3)
				tx.Clear([]byte("gone"))
				tx.ClearRange([]byte("row/2"), []byte("row/3"))
			},
		} {
			if err := term.Update(context.Background(), func(tx kv.Tx) error { change(tx); return nil }); err != nil {
				t.Fatal(err)
			}
		}
		w.allCaughtUp()
		copied.stop()
		active, term := w.active()
		w.write(term, "b", "2")
		copied.start()
		w.allCaughtUp()
		<-time.After(10 * time.Second) // all is synced, and said
		copied.stop()

		var text bytes.Buffer
		for _, n := range w.nodes {
			if n != copied && n != active {
				fmt.Fprintf(&text, "members %s %s %s\n", copied.name, active.name, n.name)
			}
		}
		state, err := w.log.State(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		entries, err := w.log.Read(context.Background(), 1, 1<<20)
		if err != nil || uint64(len(entries)) != state.Last {
			t.Fatalf("%d of %d entries, %v", len(entries), state.Last, err)
		}
		for _, entry := range entries {
			fmt.Fprintf(&text, "entry %s\n", base64.StdEncoding.EncodeToString(entry))
		}
		mu.Lock()
		defer mu.Unlock()
		for _, message := range said {
			fmt.Fprintf(&text, "heartbeat %s\n", message)
		}
		names, err := copied.disk.List("/copy")
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			file, err := copied.disk.Open("/copy/" + name)
			if err != nil {
				t.Fatal(err)
			}
			content, err := io.ReadAll(file)
			var packed bytes.Buffer
			to := gzip.NewWriter(&packed)
			_, _ = to.Write(content) // memory takes all
			if err != nil || to.Close() != nil || file.Close() != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(&text, "file %s %s\n", name, base64.StdEncoding.EncodeToString(packed.Bytes()))
		}
		if err := os.WriteFile(cluster.RecordedFile, text.Bytes(), 0o666); err != nil {
			t.Fatal(err)
		}
	})
}
