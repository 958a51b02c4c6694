package cluster_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster"
	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster/internal/chain"
)

// upgraded is a cluster of which some members have an earlier version: the log has what they
// wrote, and they say what they said.
type upgraded struct {
	*world
	recorded cluster.Recorded
	stops    []func() // of what is said
}

func upgrade(t *testing.T, test func(u *upgraded)) {
	t.Parallel()
	recorded := cluster.ReadRecorded(t)
	synctest.Test(t, func(t *testing.T) {
		u := &upgraded{world: newWorld(t, 3), recorded: recorded}
		defer u.end()
		defer func() {
			for _, stop := range u.stops {
				stop()
			}
		}()
		u.log.Identity = "log 1" // as the recorded copy has it
		if err := u.log.Create(context.Background()); err != nil {
			t.Fatal(err)
		}
		test(u)
	})
}

// written has the log begin with some of the recorded entries.
func (u *upgraded) written(entries [][]byte) {
	u.Helper()
	for i, entry := range entries {
		if err := u.log.Append(context.Background(), uint64(i), entry); err != nil {
			u.Fatal(err)
		}
	}
}

// last is the number of the last recorded entry.
func (u *upgraded) last() uint64 { return uint64(len(u.recorded.Entries)) }

// node is the node of a member.
func (u *upgraded) node(member string) *node {
	return u.nodes[slices.Index(u.names, member)]
}

// says repeats the last heartbeat of a member until stop is called.
func (u *upgraded) says(member string, role cluster.Role) (stop func()) {
	u.Helper()
	for _, message := range u.recorded.Heartbeats {
		var from struct {
			Member string
			Role   cluster.Role
		}
		if err := json.Unmarshal(message, &from); err != nil {
			u.Fatal(err)
		}
		if from.Member != member || from.Role != role {
			continue
		}
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan struct{})
		go func() {
			defer close(done)
			for rest(ctx, 300*time.Millisecond) == nil {
				_ = u.network.Broadcast(message)
			}
		}()
		stop = func() { cancel(); <-done }
		u.stops = append(u.stops, stop)
		return stop
	}
	u.Fatalf("no heartbeat of member %s as %s is recorded", member, role)
	return nil
}

// withCopy gives a node the recorded copy.
func (u *upgraded) withCopy(n *node) {
	u.Helper()
	if err := n.disk.MkdirAll("/copy", 0o700); err != nil {
		u.Fatal(err)
	}
	for name, content := range u.recorded.Files {
		f, err := n.disk.Create("/copy/"+name, vfs.WriteCategoryUnspecified)
		if err == nil {
			_, err = f.Write(content)
		}
		if err == nil {
			err = f.Close()
		}
		if err != nil {
			u.Fatal(err)
		}
	}
}

// holds compares what a member has with what the earlier version wrote.
func (u *upgraded) holds(db kv.DB) {
	u.Helper()
	for key, want := range map[string]string{
		"a": "1", "b": "2", "row/1": "r1", "row/2": "", "gone": "", "parts": strings.Repeat("0123456789", 150),
		"count": string(kv.EncodeInteger(7)), "most": string(kv.EncodeInteger(5)),
	} {
		if got := u.read(db, key); got != want {
			u.Errorf("%s is %.40q, the earlier version wrote %.40q", key, got, want)
		}
	}
}

// Members of this version take the places of members of an earlier one, one by one: with the
// copy of the earlier version, or without one. While an active member of the earlier version
// serves they follow. Then they go on with its log.
func TestLogOfEarlierVersion(t *testing.T) {
	upgrade(t, func(u *upgraded) {
		u.written(u.recorded.Entries)
		a, b, c := u.node(u.recorded.Copied), u.node(u.recorded.Active), u.node(u.recorded.Follower)
		stopActive, stopFollower := u.says(b.name, cluster.Active), u.says(c.name, cluster.Follower)
		u.withCopy(a)
		a.start()
		if at := a.up().Status(); at.Entry != u.last() || at.Epoch != 2 {
			u.Errorf("the copy of the earlier version is at %+v", at)
		}
		u.idle(20*time.Second, a)
		stopActive()
		b.start() // with an empty disk
		_, term := u.active(a, b)
		if term.Epoch() != 3 {
			u.Errorf("epoch %d follows epoch 2 of the earlier version", term.Epoch())
		}
		u.holds(term)
		u.write(term, "c", "3")
		stopFollower()
		c.start()
		u.settleCopies()
	})
}

// Members of this version do not touch the log of a program of before the first release, nor its copies: they stop, and say how
// to take the data along.
func TestLogOfBeforeIsRefused(t *testing.T) {
	upgrade(t, func(u *upgraded) {
		before := make([][]byte, len(u.recorded.Entries))
		for i, entry := range u.recorded.Entries {
			before[i] = bytes.Clone(entry)
			before[i][3] = 1
		}
		u.written(before)
		for _, n := range u.nodes {
			n.start()
		}
		u.idle(time.Minute, u.nodes...)
		for _, n := range u.nodes {
			if at := n.up().Status(); at.Role != cluster.Stopped || !strings.Contains(at.Reason, chain.Export) {
				u.Errorf("member %s: %+v, expected that it has stopped, and says %q", n.name, at, chain.Export)
			}
		}
		if state, err := u.log.State(context.Background()); err != nil || state.Last != u.last() {
			u.Errorf("the log ends at %d, %v; expected %d", state.Last, err, u.last())
		}
	})
}

// A member of an earlier version that has more than the log is heard by one of this version:
// nobody takes over.
func TestObjectionOfEarlierVersion(t *testing.T) {
	upgrade(t, func(u *upgraded) {
		u.written(u.recorded.Entries[:len(u.recorded.Entries)-1])
		u.says(u.recorded.Follower, cluster.Follower)
		a, b := u.node(u.recorded.Copied), u.node(u.recorded.Active)
		a.start()
		b.start()
		u.idle(time.Minute, a, b)
		if reasons := u.reasons(); !strings.Contains(reasons, fmt.Sprint("entry ", u.last())) || !strings.Contains(reasons, fmt.Sprint("the log ends at ", u.last()-1)) {
			u.Errorf("the members say\n%s", reasons)
		}
	})
}
