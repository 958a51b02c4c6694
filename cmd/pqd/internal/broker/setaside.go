package broker

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sync"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/pqbridge/pqbridge/cmd/pqd/internal/settings"
)

// The NATS servers of the nodes replicate the list of streams, and each stream, in groups with a directory each. A
// server that finds a damaged snapshot in a directory does not begin to replicate, and never will.
//
// Such a directory is set aside. That is safe on one condition: at some moment after this server has ceased to take
// part, every other node has all entries that its leader has committed. Entries that are committed later are
// committed without this server. So no committed entry is only in this directory, and every majority that includes
// this server, empty, includes another node that has everything. The group's term and vote stay: it votes once in a
// term.

// metaGroup is the group that replicates the list of streams.
const MetaGroup = "_meta_"

// DamagedGroups are the groups of this server that it cannot read.
type DamagedGroups struct {
	mu    sync.Mutex
	found []string // by their names
	spare string   // the group that the other nodes can spare; "": none
}

// snapshotCorrupt matches the server's log line about such a group.
var snapshotCorrupt = regexp.MustCompile(`^RAFT \[\S+ - (\S+)\] Snapshot corrupt`)

// reads takes the name of a damaged group from a line of the server's log.
func (g *DamagedGroups) reads(line string) {
	if m := snapshotCorrupt.FindStringSubmatch(line); m != nil {
		g.mu.Lock()
		defer g.mu.Unlock()
		if !slices.Contains(g.found, m[1]) {
			g.found = append(g.found, m[1])
		}
	}
}

// First is the first damaged group, or nothing.
func (g *DamagedGroups) First() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.found) == 0 {
		return ""
	}
	return g.found[0]
}

// forget is called when the groups are mended.
func (g *DamagedGroups) forget() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.found = nil
}

// CanSpare notes that the others can spare a group.
func (g *DamagedGroups) CanSpare(group string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.spare = group
}

// setAside sets aside the group that the others can spare, after the server has stopped.
func (g *DamagedGroups) setAside(s settings.Settings, o *server.Options, log *slog.Logger) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.spare == "" {
		return nil
	}
	return setAside(s, o, g.spare, log)
}

// Err describes the damage, or is nil.
func (g *DamagedGroups) Err() error {
	group := g.First()
	if group == "" {
		return nil
	}
	return fmt.Errorf("files of the NATS server of this node are damaged (the snapshot of %s): they are set aside when each other node has all that is committed, so start the others", group)
}

// groupsOf is the directory of the groups of a node's server.
func groupsOf(o *server.Options) string {
	name := o.SystemAccount
	if name == "" {
		name = server.DEFAULT_SYSTEM_ACCOUNT
	}
	return filepath.Join(o.StoreDir, server.JetStreamStoreDir, name, "_js_")
}

// keptOfGroup are the files of a group that stay: its term and vote, and its members.
var keptOfGroup = []string{"tav.idx", "peers.idx"}

// snapshotsOfGroup is the directory with the damage.
const snapshotsOfGroup = "snapshots"

// setAside moves all that does not stay out of the directory of a group. The server must not run.
func setAside(s settings.Settings, o *server.Options, group string, log *slog.Logger) error {
	from := filepath.Join(groupsOf(o), group)
	to := ""
	for n := 1; ; n++ {
		to = filepath.Join(string(s.Data), fmt.Sprintf("damaged-%d-%s", n, group))
		if _, err := os.Lstat(to); errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	for _, step := range stepsAside(from, to) {
		if err := step(); err != nil {
			return fmt.Errorf("set damaged files of the NATS server aside: %w", err)
		}
	}
	log.Error("damaged files of the NATS server of this node are set aside: it fetches from the other nodes what was in them. Look at the disk, and remove them when you like", "files", to)
	return nil
}

// stepsAside move a group's files to a new directory. What stays is never moved, so no crash and no power cut takes the term
// and the vote away. The damaged snapshot goes last: as long as it is there, the server does not begin with a part of the
// group, and the next start sets the rest aside.
func stepsAside(from, to string) []func() error {
	sync := func() error { return errors.Join(syncDirectory(from), syncDirectory(to)) }
	return []func() error{
		func() error { return os.Mkdir(to, 0o700) },
		func() error { return syncDirectory(filepath.Dir(to)) },
		func() error { return moveFiles(from, to, append([]string{snapshotsOfGroup}, keptOfGroup...)) },
		sync,
		func() error { return moveFiles(from, to, keptOfGroup) },
		sync,
	}
}

// moveFiles moves all that is in a directory, without these.
func moveFiles(from, to string, without []string) error {
	entries, err := os.ReadDir(from)
	for _, e := range entries {
		if err == nil && !slices.Contains(without, e.Name()) {
			err = os.Rename(filepath.Join(from, e.Name()), filepath.Join(to, e.Name()))
		}
	}
	return err
}

// syncDirectory puts the names of a directory on the disk.
func syncDirectory(name string) error {
	dir, err := os.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// Replica is another server of a group, as the leader knows it.
type Replica struct {
	Name string
	All  bool // it has all committed entries
}

// Spared reports whether a group can do without this node's part: another node leads it, and all others have
// everything.
func Spared(s *settings.Settings, leader string, replicas []Replica) bool {
	self, err := s.Self()
	if err != nil || leader == "" || leader == self.Name() {
		return false
	}
	for _, name := range s.Cluster.Names() {
		if name != self.Name() && name != leader && !slices.Contains(replicas, Replica{name, true}) {
			return false
		}
	}
	return true
}
