package faults_test

import (
	"cmp"
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/e2e/internal/pqd"
	"github.com/pqbridge/pqbridge/internal/testkit/disk"
	"github.com/pqbridge/pqbridge/testenv"
)

// smallDisk is a pqd on a disk of its own.
type smallDisk struct {
	*testenv.Process
	disk *disk.Disk
	nc   *nats.Conn
	t    *testing.T
}

const million = 1_000_000

// megabyte is content that no compression makes smaller.
func megabyte() string {
	b := make([]byte, million)
	_, _ = rand.Read(b)
	return string(b)
}

// fill pushes items of a megabyte until they are refused, and returns how many were not.
func (s *smallDisk) fill() (taken int) {
	s.t.Helper()
	for ; ; taken++ {
		switch why := pushed(s.t, s.nc, "pq.jobs.push", megabyte()); why {
		case "":
		case storeFull:
			return taken
		default:
			s.t.Fatalf("item %d was refused: %s", taken, why)
		}
	}
}

// work pops, leases, extends, gives back, gives up and acknowledges items.
func (s *smallDisk) work(items int) {
	s.t.Helper()
	for i := range items {
		if body := pqd.Pop(s.t, s.nc, "jobs", "min"); len(body) != million {
			s.t.Fatalf("popped %d bytes", len(body))
		}
		for _, word := range []string{"-NAK", "+TERM", "+ACK"} {
			item := pqd.Request(s.t, s.nc, "pq.jobs.pop.min", "", "PQ-Lease", "1h")
			for _, word := range []string{"+WPI", word} {
				if settled := pqd.Request(s.t, s.nc, item.Reply, word); settled.Header.Get("Status") != "" {
					s.t.Fatalf("%s of item %d was answered %v", word, i, settled.Header)
				}
			}
		}
	}
}

// accepts waits until a push is accepted.
func (s *smallDisk) accepts() {
	s.t.Helper()
	testenv.Await(s.t, "a push is accepted", func() bool { return pushed(s.t, s.nc, "pq.others.push", "x") == "" })
}

func (s *smallDisk) ask(subject string) {
	s.t.Helper()
	if reply := pqd.Request(s.t, s.nc, subject, ""); reply.Header.Get("Nats-Service-Error") != "" {
		s.t.Fatalf("%s was answered %v", subject, reply.Header)
	}
}

func (s *smallDisk) restart() {
	s.t.Helper()
	s.Kill(s.t)
	s.Start(s.t)
	s.nc = s.Connect(s.t, nats.MaxReconnects(-1))
}

// One producer fills the disk with items of a megabyte, as often as it likes: it is refused,
// pqd stays, starts again, and everybody else works. Space that is freed is usable. The same
// holds where another program takes the space while pqd runs.
func TestFilledDisk(t *testing.T) {
	t.Parallel()
	if *pqd.Ops == 0 {
		t.Skip("no -pq.ops: it needs a file system of its own")
	}
	for name, megabytes := range map[string]int64{"small": 256, "large": 1200} {
		t.Run(name, func(t *testing.T) {
			d := disk.Mount(t, func() time.Duration { return 0 })
			d.Forget()
			d.Resize(megabytes << 20)
			s := &smallDisk{disk: d, t: t, Process: testenv.Daemon(t, "PQ_STORE=local:"+filepath.Join(d.Dir, "store"))}
			s.nc = s.Connect(t, nats.MaxReconnects(-1))
			for round := range 3 {
				taken := 0
				testenv.Await(t, "a third of the disk takes items", func() bool {
					taken += s.fill()
					return taken > int(megabytes)/3
				})
				t.Logf("%d items taken, %d MiB of %d in use", taken, d.Used()>>20, megabytes)
				s.restart()
				s.work(taken / 20)
				switch round {
				case 0:
					s.ask("pq.jobs.admin.purge")
				case 1:
					s.ask("pq.jobs.admin.delete")
				case 2:
					for range taken - 3*(taken/20) {
						pqd.Pop(t, s.nc, "jobs", "min")
					}
				}
				s.ask("pq.jobs-dead.admin.purge")
				s.accepts()
			}
			if megabytes > 500 { // write-ahead logs alone can fill a smaller one, beside whatever else is there
				s.foreign(megabytes)
			}
		})
	}
}

// foreign has another program take nearly all of the disk. The store frees what was drained bit by bit: until then it refuses one
// or the other push, and the program takes what becomes free.
func (s *smallDisk) foreign(megabytes int64) {
	t := s.t
	for range 20 {
		testenv.Await(t, "a push is accepted", func() bool { return pushed(t, s.nc, "pq.jobs.push", megabyte()) == "" })
	}
	name := filepath.Join(s.disk.Dir, "foreign")
	file, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	refused := func() {
		t.Helper()
		testenv.Await(t, "a push is refused", func() bool {
			if more := megabytes<<20 - s.disk.Used() - megabytes<<20/6; more > 0 {
				if _, err := file.Write(make([]byte, more)); err != nil {
					t.Fatal(err)
				}
			}
			return pushed(t, s.nc, "pq.others.push", "x") == storeFull
		})
	}
	refused()
	s.work(2)
	s.restart()
	s.work(2)
	refused()
	if err := os.Remove(name); err != nil {
		t.Fatal(err)
	}
	s.accepts()
}

// Whatever grows stops while more than half of what stays free is left: pushes, schedules, settings of keys, ids of pushes
// and of pops, the attempts of items that are given back. Settlements and purges go on, and bring the room back.
func TestReserve(t *testing.T) {
	t.Parallel()
	if *pqd.Ops == 0 {
		t.Skip("no -pq.ops: it needs a file system of its own")
	}
	const megabytes, reserve = 600, 200
	d := disk.Mount(t, func() time.Duration { return 0 })
	d.Forget()
	d.Resize(megabytes << 20)
	s := &smallDisk{disk: d, t: t, Process: testenv.Daemon(t, "PQ_STORE=local:"+filepath.Join(d.Dir, "store"), fmt.Sprintf("PQ_MIN_FREE=%dM", reserve))}
	s.nc = s.Connect(t, nats.MaxReconnects(-1))
	least := int64(megabytes << 20)
	answers := func(what string, n int, ask func(i int) *nats.Msg) map[string]int {
		t.Helper()
		got := s.ask256(n, ask)
		free := megabytes<<20 - d.Used()
		least = min(least, free)
		t.Logf("%s: %v, %d MiB are free", what, got, free>>20)
		if free < reserve<<20/2 {
			t.Errorf("%s left %d MiB of the reserve of %d", what, free>>20, reserve)
		}
		return got
	}
	request := func(subject, body string, headers ...string) *nats.Msg {
		m := &nats.Msg{Subject: subject, Data: []byte(body), Header: nats.Header{}}
		for i := 0; i < len(headers); i += 2 {
			m.Header[headers[i]] = []string{headers[i+1]}
		}
		return m
	}
	n := min(*pqd.Ops, 3000)
	long := strings.Repeat("x", 900)
	leases := make([]string, 0, n)
	answers("items", n, func(int) *nats.Msg { return request("pq.items.push", "x") })
	pqd.Request(t, s.nc, "pq.empty.admin.config", `{"lease":"1m"}`)
	pqd.Request(t, s.nc, "pq.items.admin.config", `{"max_deliveries":0}`)
	for range n {
		leases = append(leases, pqd.Request(t, s.nc, "pq.items.pop.min", "", "PQ-Lease", "1h").Reply)
	}
	s.fill()
	for what, ask := range map[string]func(i int) *nats.Msg{
		"pushes":          func(int) *nats.Msg { return request("pq.jobs.push", megabyte()[:100_000]) },
		"pushes with ids": func(i int) *nats.Msg { return request("pq.ids.push", "", "Nats-Msg-Id", fmt.Sprint(long, i)) },
		"schedules": func(i int) *nats.Msg {
			return request(fmt.Sprint("pq.schedules.admin.schedule.s", i), `{"spec":"@yearly","item":{"payload":"`+long+`"}}`)
		},
		"settings of keys": func(i int) *nats.Msg { return request(fmt.Sprint("pq.keys.admin.key.k", i), `{"limit":1,"weight":2}`) },
		"queues":           func(i int) *nats.Msg { return request(fmt.Sprint("pq.queue", i, ".admin.config"), `{"lease":"1m"}`) },
	} {
		s.fill() // what was written meanwhile takes less as a table
		if got := answers(what, 10*n, ask); got[string(storeFull)] < 5*n {
			t.Errorf("%s were answered %v, expected at least %d refusals", what, got, 5*n)
		}
	}
	answers("pops with ids", 10*n, func(i int) *nats.Msg {
		return request("pq.empty.pop.min", "", "Nats-Msg-Id", fmt.Sprint("of a pop ", i), "PQ-Repeat", "true")
	})
	for range 16 {
		if got := answers("attempts", n, func(i int) *nats.Msg { return request(leases[i], `-NAK {"reason":"`+long+`"}`) }); got[""] != n {
			t.Errorf("settlements were answered %v", got)
		}
		for i := range leases {
			leases[i] = pqd.Request(t, s.nc, "pq.items.pop.min", "", "PQ-Lease", "1h").Reply
		}
	}
	if got := answers("acknowledgements", n, func(i int) *nats.Msg { return request(leases[i], "+ACK") }); got[""] != n {
		t.Errorf("settlements were answered %v", got)
	}
	if code, want := answers("pops with ids", 10*n, func(i int) *nats.Msg {
		return request("pq.items.pop.min", "", "Nats-Msg-Id", fmt.Sprint(long, i), "PQ-Lease", "1h")
	}), 5*n; code[string(storeFull)] < want {
		t.Errorf("pops with new ids were answered %v, expected at least %d refusals", code, want)
	}
	s.lastRoom(megabytes<<20, reserve<<20)
	s.ask("pq.jobs.admin.purge")
	s.accepts()
	t.Logf("at least %d MiB were free", least>>20)
}

// lastRoom has another program take more than half of the reserve. Then only requests that make room are served.
func (s *smallDisk) lastRoom(size, reserve int64) {
	t := s.t
	t.Helper()
	lease := pqd.Request(t, s.nc, "pq.jobs.pop.min", "", "PQ-Lease", "1h").Reply
	foreign := filepath.Join(s.disk.Dir, "foreign")
	if err := os.WriteFile(foreign, make([]byte, size-s.disk.Used()-reserve*2/5), 0o600); err != nil {
		t.Fatal(err)
	}
	refused := func() bool {
		return protocolReason(pqd.Request(t, s.nc, "pq.jobs.pop.min", "", "PQ-Lease", "1m").Header.Get("PQ-Reason")) == storeFull
	}
	testenv.Await(t, "leases are refused", refused)
	for _, settle := range []struct {
		with string
		want protocolReason
	}{{"+WPI", storeFull}, {"+ACK", ""}} {
		if got := s.ask256(1, func(int) *nats.Msg { return &nats.Msg{Subject: lease, Data: []byte(settle.with)} }); got[string(settle.want)] != 1 {
			t.Errorf("%s was answered %v, expected %q", settle.with, got, settle.want)
		}
	}
	if body := pqd.Pop(t, s.nc, "jobs", "min"); body == "" {
		t.Error("a pop for good popped nothing")
	}
	s.ask("pq.items.admin.purge")
	if err := os.Remove(foreign); err != nil {
		t.Fatal(err)
	}
	testenv.Await(t, "leases are served", func() bool { return !refused() })
}

// ask256 sends n requests, 256 at a time, and returns how often each reason was the answer.
func (s *smallDisk) ask256(n int, ask func(i int) *nats.Msg) map[string]int {
	s.t.Helper()
	got := make(map[string]int)
	var mu sync.Mutex
	free := make(chan bool, 256)
	inbox := s.nc.NewInbox()
	sub, err := s.nc.Subscribe(inbox, func(m *nats.Msg) {
		mu.Lock()
		defer mu.Unlock()
		got[cmp.Or(m.Header.Get("PQ-Reason"), m.Header.Get("Nats-Service-Error-Code"), m.Header.Get("Status"))]++
		<-free
	})
	if err != nil {
		s.t.Fatal(err)
	}
	defer sub.Unsubscribe()
	for i := range n {
		free <- true
		m := ask(i)
		m.Reply = inbox
		if err := s.nc.PublishMsg(m); err != nil {
			s.t.Fatal(err)
		}
	}
	testenv.Await(s.t, "all are answered", func() bool { return len(free) == 0 })
	mu.Lock()
	defer mu.Unlock()
	return got
}
