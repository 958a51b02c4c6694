package faults_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/e2e/internal/pqd"
	"github.com/pqbridge/pqbridge/internal/testkit/history"
	"github.com/pqbridge/pqbridge/testenv"
)

var flagFlips = flag.Int("pq.flips", 0, "damaged stores to start pqd on; 0: none")

const (
	keptQueue = "jobs"
	longest   = 12 * time.Hour // that a lease may last: a store may be looked at long after it was used
)

// kept is the store of a pqd that has ended, and the history of its clients.
type kept struct {
	files      map[string][]byte // by their names
	operations []history.Operation
	end        time.Duration
}

// keepStore has clients use a pqd that is stopped and killed on the way. At the end it is
// stopped, or killed after it has noted how far its log is synced.
func keepStore(t *testing.T, random *rand.Rand, killed bool) kept {
	c := &pqd.Campaign{Process: testenv.Daemon(t), Random: random, Faults: make(map[string]int), Fault: nil}
	c.URL = c.Process.URL
	h := c.Begin(t, keptQueue, 1, 4)
	for _, w := range h.Workers {
		w.Queue, w.Lasting, w.Padding = keptQueue, longest, 3000
	}
	for round := range 3 {
		c.Run(t, h, 60, nil)
		if round == 2 {
			break
		}
		c.Process.Stop(t)
		c.Process.Start(t)
	}
	for _, w := range h.Workers {
		w.Close()
	}
	end := h.Recorders[0].Now()
	if killed {
		<-time.After(3 * time.Second) // a second after the last commit
		c.Process.Kill(t)
	} else {
		c.Process.Stop(t)
	}
	k := kept{make(map[string][]byte), h.Recorders[0].Operations(), end}
	entries, err := os.ReadDir(c.Process.Dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if entry.Type() != fs.FileMode(0) {
			continue
		}
		if k.files[entry.Name()], err = os.ReadFile(filepath.Join(c.Process.Dir, entry.Name())); err != nil {
			t.Fatal(err)
		}
	}
	return k
}

// leases are those that consumers have not begun to settle.
func leases(operations []history.Operation) []history.Operation {
	type lease struct {
		item  string
		fence int64
	}
	held := make(map[lease]history.Operation)
	for _, o := range operations {
		if o.Kind == history.Lease && o.Outcome == history.Done {
			held[lease{o.Item, o.Fence}] = o
		}
	}
	for _, o := range operations {
		if o.Kind == history.Ack || o.Kind == history.Nak {
			delete(held, lease{o.Item, o.Fence})
		}
	}
	return slices.SortedFunc(maps.Values(held), func(a, b history.Operation) int { return int(a.Call - b.Call) })
}

// damage is one way to damage a file.
type damage struct {
	file, what string
	content    []byte
}

// damaged damages one of the files in one way or another.
func damaged(files map[string][]byte, random *rand.Rand) damage {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if len(files[name]) > 0 {
			names = append(names, name)
		}
	}
	d := damage{file: names[random.IntN(len(names))]}
	d.content = slices.Clone(files[d.file])
	used := len(bytes.TrimRight(d.content, "\x00")) // the rest of a log is zeros
	at := random.IntN(max(used, 1))
	sector := d.content[at/512*512 : min(len(d.content), at/512*512+512)]
	switch random.IntN(5) {
	case 0, 1:
		d.what = fmt.Sprintf("bit %d of byte %d flipped", random.IntN(8), at)
		d.content[at] ^= 1 << random.IntN(8)
	case 2:
		d.what = fmt.Sprintf("the sector of byte %d is zeros", at)
		clear(sector)
	case 3:
		d.what = fmt.Sprintf("the sector of byte %d is something else", at)
		for i := range sector {
			sector[i] = byte(random.Uint32())
		}
	case 4:
		d.what = fmt.Sprintf("cut off at byte %d", at)
		d.content = d.content[:at]
	}
	return d
}

// start starts pqd on the damaged store and returns the outcome. pqd must report a loss:
// it refuses to start and names the file, or it refuses requests, and /readyz names the
// file as damaged.
func (k kept) start(t *testing.T, d damage, seed uint64) string {
	dir := filepath.Join(t.TempDir(), "store")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, content := range k.files {
		if name == d.file {
			content = d.content
		}
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if bytes.Equal(d.content, k.files[d.file]) {
		return "nothing is changed"
	}
	p := testenv.Launch(t, "PQ_STORE=local:"+dir)
	if !p.Ready(t) {
		if code := p.AwaitEnd(t); code != 1 || !strings.Contains(p.Log(), d.file) {
			t.Errorf("pqd ended with %d, expected 1 and the name of the file: %s", code, p.Log())
		}
		return "pqd does not start, and names the file"
	}
	recorder := history.Resume(k.operations, k.end)
	w := &testenv.Worker{
		TB: t, ID: 99, Queue: keptQueue, Recorder: recorder, Answers: new(atomic.Int64), Lasting: longest,
		Dial:   func(options ...nats.Option) (*nats.Conn, error) { return nats.Connect(p.URL, options...) },
		Random: rand.New(rand.NewPCG(seed, 0)),
	}
	w.Connect()
	for _, lease := range leases(k.operations) {
		w.Hold(lease)
	}
	w.Finish()
	w.Empty()
	defer w.Close()
	code, page := pqd.Get(t, p.HTTP+"/readyz")
	var says struct{ Damage string }
	if err := json.Unmarshal([]byte(page), &says); err != nil || code != http.StatusOK {
		t.Errorf("/readyz: %d %s, %v", code, page, err)
	}
	if says.Damage != "" {
		if !strings.Contains(says.Damage, d.file) {
			t.Errorf("/readyz: %s, expected the name of the file", page)
		}
		return "pqd refuses what it cannot read, and names the file"
	}
	var left struct{ Ready, Leased, Delayed int }
	if text := cmp.Or(w.Info(), "{}"); json.Unmarshal([]byte(text), &left) != nil || left.Ready+left.Delayed+left.Leased+w.Damaged > 0 {
		t.Errorf("%d requests were refused and %s is left, but nothing tells of damage", w.Damaged, text)
	}
	testenv.Judge(t, recorder.Operations(), history.One)
	return "nothing is missing"
}

// Whatever file is damaged while pqd does not run, nothing acknowledged is lost silently,
// and nothing wrong is delivered.
func TestBitFlips(t *testing.T) {
	t.Parallel()
	if *flagFlips == 0 {
		t.Skip("no -pq.flips: it starts pqd as often")
	}
	random, results := pqd.Seeded(t), make(map[string]int)
	stores := []kept{keepStore(t, random, false), keepStore(t, random, true)}
	for n, failed := 0, 0; n < *flagFlips && failed < 5; n++ {
		k, seed := stores[n%len(stores)], random.Uint64()
		d := damaged(k.files, random)
		if !t.Run(fmt.Sprintf("%d %s, %s", n, d.file, d.what), func(t *testing.T) {
			kind := strings.TrimLeft(strings.TrimRight(d.file, "0123456789"), "0123456789")
			if strings.HasPrefix(d.file, "marker.") {
				kind = "marker"
			}
			results[kind+": "+k.start(t, d, seed)]++
		}) {
			failed++
		}
	}
	for _, what := range slices.Sorted(maps.Keys(results)) {
		t.Logf("%4d %s", results[what], what)
	}
}
