package faults_test

import (
	"crypto/rand"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/e2e/internal/pqd"
	"github.com/pqbridge/pqbridge/internal/disk"
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
			if more := megabytes<<20 - s.disk.Used() - megabytes<<20/8; more > 0 {
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
