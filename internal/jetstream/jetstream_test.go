package jetstream_test

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	js "github.com/nats-io/nats.go/jetstream"

	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster"
	"github.com/pqbridge/pqbridge/internal/jetstream"
	"github.com/pqbridge/pqbridge/internal/testkit/clustertest"
	"github.com/pqbridge/pqbridge/testenv"
)

const maxBytes = 256 << 20

// single returns a server with JetStream.
func single(t testing.TB) *testenv.Server {
	t.Helper()
	return testenv.NATS(t, func(o *server.Options) {
		o.JetStream, o.StoreDir, o.SyncAlways, o.JetStreamMaxStore = true, t.TempDir(), true, 4<<30
	})
}

func connect(t testing.TB, url string) *nats.Conn {
	t.Helper()
	nc, err := nats.Connect(url, nats.Timeout(testenv.Patience()), nats.MaxReconnects(-1), nats.ReconnectBufSize(-1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

func open(t testing.TB, nc *nats.Conn, o jetstream.Options) *jetstream.Log {
	t.Helper()
	l, err := jetstream.NewLog(nc, o)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// runLog runs the suite on streams with so many replicas.
func runLog(t *testing.T, url string, replicas int) {
	nc := connect(t, url)
	api, err := js.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	stores := make(map[cluster.Log]string)
	clustertest.RunLog(t, clustertest.LogHarness{
		Place: func(t testing.TB) func() cluster.Log {
			name := strings.NewReplacer("/", "-").Replace(t.Name())
			o := jetstream.Options{Name: name, Replicas: replicas, MaxBytes: maxBytes}
			return func() cluster.Log {
				l := open(t, connect(t, url), o)
				mu.Lock()
				defer mu.Unlock()
				stores[l] = name
				return l
			}
		},
		Remove: func(t testing.TB, l cluster.Log) {
			mu.Lock()
			defer mu.Unlock()
			if err := api.DeleteStream(t.Context(), jetstream.Stream(stores[l], 1)); err != nil {
				t.Fatal(err)
			}
		},
	})
}

func TestLog(t *testing.T) {
	t.Parallel()
	runLog(t, single(t).URL(), 1)
}

func TestMembers(t *testing.T) {
	t.Parallel()
	server := testenv.NATS(t)
	clustertest.RunMembers(t, func(t testing.TB) cluster.Members {
		m, err := jetstream.NewMembers(connect(t, server.URL()), "store")
		if err != nil {
			t.Fatal(err)
		}
		return m
	})
}

// A stream that could lose or change entries is refused, and so is a stream that was changed
// while it is in use. What an operator may change is accepted.
func TestStreamConfiguration(t *testing.T) {
	t.Parallel()
	nc := connect(t, single(t).URL())
	api, err := js.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), testenv.Patience())
	defer cancel()
	for name, c := range map[string]struct {
		change func(*js.StreamConfig)
		says   string // "": it is accepted
	}{
		"age":       {func(c *js.StreamConfig) { c.MaxAge = 1e12 }, "no max_age"},
		"count":     {func(c *js.StreamConfig) { c.MaxMsgs = 5 }, "no max_msgs"},
		"subject":   {func(c *js.StreamConfig) { c.MaxMsgsPerSubject = 5 }, "no max_msgs_per_subject"},
		"discard":   {func(c *js.StreamConfig) { c.Discard = js.DiscardOld }, "discard: new"},
		"subjects":  {func(c *js.StreamConfig) { c.Subjects = append(c.Subjects, "more") }, "subjects: PQ_CLUSTER"},
		"unlimited": {func(c *js.StreamConfig) { c.MaxBytes = -1 }, "max_bytes"},
		"direct":    {func(c *js.StreamConfig) { c.AllowDirect = false }, "allow_direct"},
		"acks":      {func(c *js.StreamConfig) { c.NoAck = true }, "no_ack"},
		"rollup":    {func(c *js.StreamConfig) { c.AllowRollup = true }, "allow_rollup"},
		"ttl":       {func(c *js.StreamConfig) { c.AllowMsgTTL = true }, "allow_msg_ttl"},
		"sealed":    {func(c *js.StreamConfig) { c.Sealed = true }, "sealed"},
		"transform": {func(c *js.StreamConfig) {
			c.SubjectTransform = &js.SubjectTransformConfig{Source: ">", Destination: "x.>"}
		}, "subject_transform"},
		"larger":       {func(c *js.StreamConfig) { c.MaxBytes *= 2 }, ""},
		"description":  {func(c *js.StreamConfig) { c.Description = "mine" }, ""},
		"owner's note": {func(c *js.StreamConfig) { c.Metadata = map[string]string{"team": "a"} }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			store := strings.NewReplacer(" ", "-", "'", "-").Replace(name)
			l := open(t, nc, jetstream.Options{Name: store, Replicas: 1, MaxBytes: maxBytes})
			if err := l.Create(ctx); err != nil {
				t.Fatal(err)
			}
			s, err := api.Stream(ctx, jetstream.Stream(store, 1))
			if err != nil {
				t.Fatal(err)
			}
			changed := s.CachedInfo().Config
			c.change(&changed)
			if _, err := api.UpdateStream(ctx, changed); err != nil {
				t.Fatalf("change the stream: %v", err)
			}
			for what, err := range map[string]error{"Create": l.Create(ctx), "State": state(ctx, l)} {
				switch {
				case c.says == "" && err != nil:
					t.Errorf("%s: %v", what, err)
				case c.says != "" && (!errors.Is(err, jetstream.ErrStream) || !strings.Contains(err.Error(), c.says)):
					t.Errorf("%s: %v, expected one that says %q", what, err, c.says)
				}
			}
		})
	}
}

func state(ctx context.Context, l cluster.Log) error {
	_, err := l.State(ctx)
	return err
}

// A stream that is made with nothing said of its size could fill the disk.
func TestStreamNeedsSize(t *testing.T) {
	t.Parallel()
	l := open(t, connect(t, single(t).URL()), jetstream.Options{Name: "store", Replicas: 1})
	if err := l.Create(t.Context()); err == nil || !strings.Contains(err.Error(), "max_bytes") {
		t.Errorf("Create: %v, expected one about max_bytes", err)
	}
}

func TestNames(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"", "a.b", "a b", "*", ">", "ä", strings.Repeat("x", 65)} {
		if _, err := jetstream.NewLog(nil, jetstream.Options{Name: name}); err == nil {
			t.Errorf("a store may be called %q", name)
		}
		if _, err := jetstream.NewMembers(nil, name); err == nil {
			t.Errorf("the store of members may be called %q", name)
		}
	}
}

// A full log refuses entries, and takes some again after a purge.
func TestFull(t *testing.T) {
	t.Parallel()
	l := open(t, connect(t, single(t).URL()), jetstream.Options{Name: "store", Replicas: 1, MaxBytes: 100 << 10})
	ctx, cancel := context.WithTimeout(t.Context(), testenv.Most)
	defer cancel()
	if err := l.Create(ctx); err != nil {
		t.Fatal(err)
	}
	entry := make([]byte, 10<<10)
	var last uint64
	for ; ; last++ {
		if err := l.Append(ctx, last, entry); err != nil {
			if !errors.Is(err, cluster.ErrFull) {
				t.Errorf("Append: %v, expected ErrFull", err)
			}
			break
		}
	}
	if last < 5 || last > 10 {
		t.Errorf("the log was full after %d entries of 10 KiB, expected 5 to 10", last)
	}
	if err := l.Purge(ctx, last); err != nil {
		t.Fatal(err)
	}
	if err := l.Append(ctx, last, entry); err != nil {
		t.Errorf("Append after the purge: %v", err)
	}
}

// Elections take NATS servers up to half a minute, so faults are for a campaign.
var flagFaults = flag.Bool("pq.faults", false, "kill and cut off servers while writers compete")

// Writers compete for each position, with -pq.faults while servers are killed and cut off.
// The result that a writer got for its entry is true, and no position has two entries.
func TestCompetingWriters(t *testing.T) {
	t.Parallel()
	c := testenv.NewCluster(t)
	ctx, cancel := context.WithTimeout(t.Context(), testenv.Most)
	defer cancel()
	o := jetstream.Options{Name: "store", MaxBytes: maxBytes}
	first := open(t, connect(t, c.URL()), o)
	testenv.Await(t, "there is a log", func() bool { return first.Create(ctx) == nil }) // the leader has found all servers then
	t.Run("contract", func(t *testing.T) { runLog(t, c.URL(), 3) })

	const writers = 3
	type claim struct {
		entry string
		lost  bool
	}
	claims := make([]map[uint64][]claim, writers)
	acked := make(chan uint64, 1<<16)
	var highest atomic.Uint64 // number of an acknowledged entry
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for w := range writers {
		// Each writer stays with a server. If all were at the server that is cut off, nothing
		// would go on.
		l := open(t, connect(t, c.Servers[w].URL()), o)
		claims[w] = make(map[uint64][]claim)
		wg.Go(func() {
			var after uint64
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				entry := fmt.Sprintf("%d of %d", n, w)
				switch err := l.Append(ctx, after, []byte(entry)); {
				case err == nil:
					for seen := highest.Load(); after+1 > seen && !highest.CompareAndSwap(seen, after+1); seen = highest.Load() {
					}
					claims[w][after+1] = append(claims[w][after+1], claim{entry: entry})
					select {
					case acked <- after + 1:
					default:
					}
				case errors.Is(err, cluster.ErrMoved):
					claims[w][after+1] = append(claims[w][after+1], claim{entry: entry, lost: true})
				}
				// The last entry that is there is the one to append behind.
				for {
					found, err := l.Read(ctx, after+1, 100)
					if err != nil {
						break
					}
					after += uint64(len(found))
				}
			}
		})
	}
	progress := func() {
		for range 20 {
			select {
			case <-acked:
			case <-ctx.Done():
				t.Error("no entry is acknowledged any more")
				return
			}
		}
	}
	drain := func() {
		for len(acked) > 0 {
			<-acked
		}
	}
	progress()
	if *flagFaults {
		leader := c.StreamLeader(t, jetstream.Stream("store", 1))
		c.Kill(t, leader)
		drain()
		progress()
		c.Start(t, leader)
		c.AwaitCurrent(t, jetstream.Stream("store", 1))
		leader = c.StreamLeader(t, jetstream.Stream("store", 1))
		c.Isolate(leader)
		drain()
		progress()
		c.Join(leader)
		c.AwaitLeader(t)
		c.AwaitCurrent(t, jetstream.Stream("store", 1))
		progress()
	}
	close(stop)
	wg.Wait()

	var log []string
	testenv.Await(t, "all entries have been read", func() bool {
		for {
			found, err := first.Read(ctx, uint64(len(log))+1, 1000)
			if err != nil {
				// A server that lags says so, too.
				s, stateErr := first.State(ctx)
				return errors.Is(err, cluster.ErrNoEntry) && stateErr == nil && s.Last == uint64(len(log)) && s.Last >= highest.Load()
			}
			for _, entry := range found {
				log = append(log, string(entry))
			}
		}
	})
	known, seen := 0, make(map[string]int)
	for i, entry := range log {
		if before := seen[entry]; before > 0 {
			t.Errorf("the entry %q is number %d and number %d", entry, before, i+1)
		}
		seen[entry] = i + 1
	}
	for _, of := range claims {
		for number, made := range of {
			for _, claimed := range made {
				known++
				switch at := seen[claimed.entry]; {
				case claimed.lost && at != 0:
					t.Errorf("%q was refused, and is number %d of the log", claimed.entry, at)
				case !claimed.lost && at != int(number):
					t.Errorf("entry %d was acknowledged as %q, and is number %d", number, claimed.entry, at)
				}
			}
		}
	}
	t.Logf("%d entries, %d answers", len(log), known)
}

// Earlier servers checked the expected sequence of an append wrongly.
func TestServerVersion(t *testing.T) {
	t.Parallel()
	for version, accepted := range map[string]bool{
		"2.12.9": false, "1.99.0": false, "unknown": false,
		"2.14.0": true, "2.15.2": true, "3.0.0-beta": true,
	} {
		l := open(t, connect(t, pretender(t, version)), jetstream.Options{Name: "store"})
		ctx, cancel := context.WithCancel(t.Context())
		cancel() // the pretender answers nothing
		err := l.Append(ctx, 0, []byte("a"))
		if refused := errors.Is(err, jetstream.ErrVersion); refused == accepted {
			t.Errorf("server %s: %v", version, err)
		}
		if !accepted {
			if err := l.Create(t.Context()); !errors.Is(err, jetstream.ErrVersion) {
				t.Errorf("Create on server %s: %v", version, err)
			}
		}
	}
}

// pretender is a server that says that it has this version, and nothing else.
func pretender(t *testing.T, version string) (url string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	t.Cleanup(serving.Wait)
	t.Cleanup(func() { _ = listener.Close() })
	serving.Go(func() {
		conn, err := listener.Accept()
		if err != nil {
			return // closed
		}
		defer conn.Close()
		fmt.Fprintf(conn, "INFO {\"server_id\":\"x\",\"version\":%q,\"headers\":true,\"max_payload\":1048576}\r\n", version)
		for lines := bufio.NewScanner(conn); lines.Scan(); {
			if lines.Text() == "PING" {
				fmt.Fprint(conn, "PONG\r\n")
			}
		}
	})
	return "nats://" + listener.Addr().String()
}
