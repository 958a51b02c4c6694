package commands

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/cmd/pqd/internal/settings"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/fdbpq/kv/local"
	"github.com/pqbridge/pqbridge/fdbpq/link"
	"github.com/pqbridge/pqbridge/fdbpq/schedule"
	"github.com/pqbridge/pqbridge/fdbpq/source"
	"github.com/pqbridge/pqbridge/internal/tuple"
	"github.com/pqbridge/pqbridge/protocol"
)

// Salvage writes all that is known of each item, the configurations of queues, and the
// items before and behind one of which a part is missing, whatever page they stand on.
func TestSalvageLeavesNothingOut(t *testing.T) {
	t.Parallel()
	dir, began := filepath.Join(t.TempDir(), "store"), time.Now()
	fillStore(t, dir)

	to, said := salvaged(t, dir, salvaging{page: 2})

	jobs, end := readExport(t, filepath.Join(to, "jobs.jsonl"))
	if end.Config.MaxLength != 70 {
		t.Errorf("the configuration of jobs is %+v, expected a max_length of 70", end.Config)
	}
	if k := end.Keys["Zoë"]; len(end.Keys) != 1 || k.Rate == nil || *k.Rate != "1/1m0s" || k.Limit != nil {
		t.Errorf("the settings of keys of jobs are %+v, expected a rate of one", end.Keys)
	}
	if d := &end.Definitions; len(d.Schedules) != 1 || len(d.Sources) != 1 || len(d.Links) != 1 || d.Schedules[0].Name != "daily" || d.Schedules[0].Spec != "@daily" ||
		*d.Schedules[0].Item.Payload != "report" || d.Sources[0].Stream != "ORDERS" || !d.Sources[0].Paused || d.Links[0].To != "elsewhere" {
		t.Errorf("what jobs has by names is %+v", d)
	}
	text := func(s string) *string { return &s }
	want := []protocol.Item{
		{Priority: 1, State: protocol.StateReady, Payload: text("ready"), Size: 11, Headers: nats.Header{"A": {"b"}}, Expires: began.Add(2 * time.Hour)},
		{Priority: 4, State: protocol.StateReady, Payload: text("again"), Size: 5},
		{Priority: 3, State: protocol.StateDelayed, Payload: text("delayed"), Size: 7, Due: began.Add(3 * time.Hour)},
		{Priority: 0, Key: "ann", State: protocol.StateLeased, Payload: text("leased"), Size: 6, Due: began.Add(4 * time.Hour), Deliveries: 1, Fence: 2},
	}
	for i := range want {
		want[i].Pushed = began
	}
	if held := &jobs[len(jobs)-1]; held.KeyFence == 0 {
		t.Errorf("%+v has no fence of its key", held)
	} else {
		held.KeyFence = 0
	}
	sameItems(t, "jobs", want, jobs)
	dead, whole := readExport(t, filepath.Join(to, "jobs-dead.jsonl"))
	sameItems(t, "jobs-dead", []protocol.Item{{
		Priority: -1, State: protocol.StateReady, Payload: text("dead"), Size: 4, Pushed: began, Dead: &protocol.Death{Reason: "no use", Origin: "jobs", At: began, Deliveries: 1},
	}}, dead)
	broken, part := readExport(t, filepath.Join(to, "broken.jsonl"))
	if whole.Missing != "" || !strings.Contains(part.Missing, "1 items could not be read") {
		t.Errorf("the export of a whole queue lacks %q, and that of a part %q", whole.Missing, part.Missing)
	}
	var found []string
	for i := range broken {
		found = append(found, string(broken[i].Bytes()))
	}
	if got := strings.Join(found, " "); got != "1 2 4 5 6" {
		t.Errorf("of the items 1 to 6, without a part of 3, found %s", got)
	}
	if !strings.Contains(said, "broken: 5 items in "+filepath.Join(to, "broken.jsonl")+", not all of it: 0 stretches and 1 items could not be read") ||
		!strings.Contains(said, "jobs: 4 items in "+filepath.Join(to, "jobs.jsonl")+", as it was\n") {
		t.Errorf("said %s", said)
	}
}

// A store that somebody else made may have queues whose names are none. Their items are written out like those of others, and
// nowhere but in the directory.
func TestSalvageOfStrangeNames(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	dir := filepath.Join(root, "store")
	long := strings.Repeat("x", 300)
	names := map[string]string{ // and the file of each
		"jobs": "jobs", "acme.jobs": "acme.jobs", "../escaped": "%2E%2E%2Fescaped", "../001/escaped": "", "/" + filepath.Join(root, "absolute"): "",
		"a\x1b[2Jb": "a%1B%5B2Jb", "a%1B": "a%251B", ".": "%2E", "..": "%2E%2E", "a/b": "a%2Fb", "a\\b": "a%5Cb", "a\x00": "a%00", "grün": "gr%C3%BCn",
		long + "1": "", long + "2": "", "a.b.c": "a%2Eb%2Ec",
	}
	strange := func(name string) bool { return name != "jobs" && name != "acme.jobs" }
	db, store := openStore(t, dir)
	for name := range names {
		if err := db.Update(t.Context(), func(tx kv.Tx) error {
			_, err := store.Queue(name).Push(tx, fdbpq.NewItem{Payload: []byte(name)})
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	before := filesIn(t, root)

	to, said := salvaged(t, dir, salvaging{page: 2})

	found := make(map[string]bool)
	for _, path := range filesIn(t, to) {
		items, _ := readExport(t, path)
		if len(items) != 1 {
			t.Fatalf("%s has %d items", path, len(items))
		}
		name := string(items[0].Bytes())
		found[name] = true
		if want := names[name]; want != "" && filepath.Base(path) != want+".jsonl" {
			t.Errorf("the items of %q are in %s, expected %s", name, path, want)
		}
		shown := name
		if strange(name) {
			shown = fmt.Sprintf("%q, which no queue may be called", name)
		}
		if !strings.Contains(said, shown+": 1 items in "+path+", as it was\n") {
			t.Errorf("nothing is said of %s in %s", shown, path)
		}
	}
	if len(found) != len(names) {
		t.Errorf("the items of %d queues are there, expected %d", len(found), len(names))
	}
	if after := filesIn(t, root); !slices.Equal(after, before) {
		t.Errorf("beside the store there are now %q, expected %q", after, before)
	}
	if _, err := os.Stat(filepath.Join(to, "..", "escaped.jsonl")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("there is a file beside the directory: %v", err)
	}
	if strings.ContainsFunc(said, func(c rune) bool { return c != '\n' && unicode.IsControl(c) }) {
		t.Errorf("control characters in %q", said)
	}

	var problems bytes.Buffer
	checked := settings.Settings{Store: settings.StoreName{Engine: "local", Place: dir}}
	if err := Check(t.Context(), checked, slog.New(slog.DiscardHandler), &problems); err == nil || !strings.Contains(err.Error(), "is damaged") {
		t.Errorf("the check says %v", err)
	}
	for name := range names {
		line := fmt.Sprintf("queue %q: no queue may have this name", name)
		if n := strings.Count(problems.String(), line); n != map[bool]int{true: 1}[strange(name)] {
			t.Errorf("the check finds %s, %d times, in %s", line, n, problems.String())
		}
	}
}

// A queue that only a later program serves does not keep the others from being written out.
func TestSalvageOfALaterQueue(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "store")
	db, store := openStore(t, dir)
	if err := db.Update(t.Context(), func(tx kv.Tx) (err error) {
		for _, name := range []string{"a", "b", "c"} {
			if _, err := store.Queue(name).Push(tx, fdbpq.NewItem{Payload: []byte(name)}); err != nil {
				return err
			}
		}
		tx.Set([]byte("\x02q\x00\x02b\x00"), tuple.AppendInt(tuple.AppendInt(tuple.AppendInt(nil, 99), 1), 0))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	to, said := salvaged(t, dir, salvaging{page: salvagePage})
	for _, name := range []string{"a", "c"} {
		items, end := readExport(t, filepath.Join(to, name+".jsonl"))
		if len(items) != 1 || end.Missing != "" {
			t.Errorf("%s has %d items, and lacks %q", name, len(items), end.Missing)
		}
	}
	if !strings.Contains(said, "b: 0 items in "+filepath.Join(to, "b.jsonl")+", not all of it: nothing of it could be read, a later version of this program has to: queue \"b\": queue state has format 99") {
		t.Errorf("said %s", said)
	}
}

// filesIn are the files below a directory.
func filesIn(t *testing.T, dir string) (paths []string) {
	t.Helper()
	if err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			paths = append(paths, path)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return paths
}

// A damaged log may have had items of each queue, and pops: no queue is said to be as it was.
func TestSalvageOfADamagedLog(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		damage []local.Damage
		want   string
	}{
		{nil, ""},
		{[]local.Damage{{File: "store/000005.sst", What: "is torn"}}, ""},
		{[]local.Damage{{File: "store/000004.log", What: "is torn"}, {File: "store/000006.log", What: "is missing"}}, ": 000004.log is torn; 000006.log is missing"},
	} {
		if lost := lostLogs(c.damage); (lost == "") != (c.want == "") || !strings.HasSuffix(lost, c.want) {
			t.Errorf("%+v: %q, expected %q", c.damage, lost, c.want)
		}
	}
	dir := filepath.Join(t.TempDir(), "store")
	fillStore(t, dir)
	const lost = "000004.log is torn"
	to, said := salvaged(t, dir, salvaging{page: salvagePage, lost: lost})
	if _, end := readExport(t, filepath.Join(to, "jobs.jsonl")); end.Missing != lost {
		t.Errorf("the export says that it lacks %q", end.Missing)
	}
	if strings.Contains(said, "as it was") || !strings.Contains(said, ", perhaps not all of it: 000004.log is torn\n") ||
		!strings.Contains(said, ", not all of it: 0 stretches and 1 items could not be read; what had been taken may be there again; 000004.log is torn\n") {
		t.Errorf("said %s", said)
	}
}

// salvaged salvages all queues of a store, and returns the folder with the exports and what was said.
func salvaged(t *testing.T, dir string, x salvaging) (to, said string) {
	t.Helper()
	db, err := local.Open(dir, local.Options{Salvage: true})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	store, err := fdbpq.Open(t.Context(), db, fdbpq.Options{Exclusive: true})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	x.db, x.store, x.to, x.stdout = db, store, t.TempDir(), &out
	if err := x.all(t.Context()); err != nil {
		t.Fatal(err)
	}
	return x.to, out.String()
}

// openStore opens a store, and makes one in an empty directory.
func openStore(t *testing.T, dir string) (*local.DB, *fdbpq.Store) {
	t.Helper()
	db, err := local.Open(dir, local.Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	store, err := fdbpq.Open(t.Context(), db, fdbpq.Options{Exclusive: true})
	if err != nil {
		t.Fatal(err)
	}
	return db, store
}

// fillStore makes a store with an item in each state and with one item of which a part
// is missing.
func fillStore(t *testing.T, dir string) {
	t.Helper()
	db, store := openStore(t, dir)
	item := func(priority int64, payload string) fdbpq.NewItem {
		return fdbpq.NewItem{Priority: priority, HasPriority: true, Payload: []byte(payload)}
	}
	take := func(tx kv.Tx) (fdbpq.Lease, error) {
		popped, err := store.Queue("jobs").Lease(tx, fdbpq.Selection{Limit: 1}, 4*time.Hour)
		if err == nil && len(popped.Items) != 1 {
			err = errors.New("there is nothing to lease")
		}
		if err != nil {
			return fdbpq.Lease{}, err
		}
		return *popped.Items[0].Lease, nil
	}
	for _, step := range []func(kv.Tx) error{
		func(tx kv.Tx) error {
			_, err := store.Queue("jobs").Configure(tx, []byte(`{"max_length":70,"key_limit":1}`))
			return err
		},
		func(tx kv.Tx) error {
			_, err := store.Queue("jobs").SetKey(tx, "Zoë", []byte(`{"rate":"1/1m"}`))
			return err
		},
		func(tx kv.Tx) error {
			_, err := schedule.New(store).Set(tx, store.Queue("jobs"), "daily", []byte(`{"spec":"@daily"}`), &schedule.Item{Payload: []byte("report")})
			return err
		},
		func(tx kv.Tx) error {
			_, err := source.New(store).Set(tx, store.Queue("jobs"), "orders", []byte(`{"remote":"hub","stream":"ORDERS","paused":true}`), func(source.Config) error { return nil })
			return err
		},
		func(tx kv.Tx) error {
			_, err := link.New(store).Set(tx, store.Queue("jobs"), "hub", []byte(`{"to":"elsewhere"}`))
			return err
		},
		func(tx kv.Tx) error {
			leased, ready, delayed := item(0, "leased"), item(1, "ready"), item(3, "delayed")
			leased.Key = "ann"
			ready.TTL, delayed.Delay = 2*time.Hour, 3*time.Hour
			ready.Headers = []byte("A: b\r\n")
			_, err := store.Queue("jobs").Push(tx, item(-1, "dead"), leased, ready, delayed, item(4, "again"))
			return err
		},
		func(tx kv.Tx) error {
			lease, err := take(tx)
			if err == nil {
				_, err = store.Queue("jobs").Terminate(tx, lease, "no use")
			}
			return err
		},
		func(tx kv.Tx) error { // this one is returned, so it is no delivery
			lease, err := take(tx)
			if err == nil {
				_, err = store.Queue("jobs").Return(tx, lease)
			}
			return err
		},
		func(tx kv.Tx) error { _, err := take(tx); return err },
		func(tx kv.Tx) error {
			q := store.Queue("broken")
			_, err := q.Push(tx, item(1, "1"), item(2, "2"), item(3, strings.Repeat("3", 100_000)), item(4, "4"), item(5, "5"), item(6, "6"))
			return err
		},
		func(tx kv.Tx) error {
			rows, err := tx.Range([]byte{0}, []byte{0xff}, kv.RangeOptions{Limit: 1000})
			for _, row := range rows {
				if bytes.HasPrefix(row.Value, []byte("3333")) {
					tx.Clear(row.Key)
					return err
				}
			}
			return errors.Join(err, errors.New("no row has a part of the large item"))
		},
	} {
		if err := db.Update(t.Context(), step); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

// readExport returns the items of an export, and what its last line says.
func readExport(t *testing.T, name string) (items []protocol.Item, end *protocol.ExportTrailer) {
	t.Helper()
	file, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for lines := json.NewDecoder(file); ; {
		var line struct {
			protocol.Item
			protocol.ExportEnd
		}
		if err := lines.Decode(&line); errors.Is(err, io.EOF) {
			t.Fatalf("%s has no last line", name)
		} else if err != nil {
			t.Fatal(err)
		}
		if end := line.Export; end != nil {
			if end.Items != int64(len(items)) || end.Config == nil {
				t.Fatalf("%s: the last line tells of %d items, found %d, and of the configuration %v", name, end.Items, len(items), end.Config)
			}
			return items, end
		}
		items = append(items, line.Item)
	}
}

// sameItems compares items, but for their ids. Times may differ by how long the test
// takes.
func sameItems(t *testing.T, queue string, want, got []protocol.Item) {
	t.Helper()
	if diff := cmp.Diff(want, got, cmpopts.EquateApproxTime(30*time.Minute),
		cmpopts.IgnoreFields(protocol.Item{}, "ID"), cmpopts.IgnoreFields(protocol.Death{}, "OriginID")); diff != "" {
		t.Errorf("%s (-want +got):\n%s", queue, diff)
	}
	for _, item := range got {
		if item.ID == "" || item.Dead != nil && item.Dead.OriginID == "" {
			t.Errorf("%s: an item without an id: %+v", queue, item)
		}
	}
}
