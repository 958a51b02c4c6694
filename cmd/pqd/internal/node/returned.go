package node

import (
	"context"
	"slices"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster"
	"github.com/pqbridge/pqbridge/internal/jetstream"
)

// returned removes the servers of nodes that were replaced and were started again nevertheless, with their old disks. Among
// those that agree on streams such a server is a voter as soon as it is heard: that it was removed the others remember for
// minutes only, and until they are started anew. When it ends and another node is lost, too few of the voters are left to
// put a new node in the place of that one. So the node whose server leads them removes it at once, by what the log remembers.
// That ends a replacement that was interrupted as well.
type returned struct {
	*replacing
	voters int       // when they were looked at last
	looked time.Time // for those that are too many; zero: look again at once
}

const (
	// returnedEvery is the time between looks at the number of voters, which cost little.
	returnedEvery = 100 * time.Millisecond

	// tooManyEvery is the time between looks at voters that are too many for a while: a new node that has no place yet is one.
	tooManyEvery = time.Second
)

// watch watches for them until ctx ends.
func (r *returned) watch(ctx context.Context) {
	look := time.NewTicker(returnedEvery)
	defer look.Stop()
	for {
		select {
		case <-look.C:
			r.look(ctx)
		case <-ctx.Done():
			return
		}
	}
}

// look removes those that have returned.
func (r *returned) look(ctx context.Context) {
	voters := r.storeLog.broker.Voters()
	same := len(voters) == r.voters
	r.voters = len(voters)
	if len(voters) <= len(r.storeLog.settings.Cluster) || same && time.Since(r.looked) < tooManyEvery {
		return
	}
	r.looked = time.Now()
	ctx, cancel := context.WithTimeout(ctx, openLogLimit)
	defer cancel()
	info, err := r.storeLog.stream(ctx, r.stream())
	if err != nil {
		return // the log has no leader: look again
	}
	for _, name := range jetstream.Replaced(&info.Config) {
		if !voters.Has(name) {
			continue
		}
		back, known := comesBack(name, r.db.Status().Members, r.storeLog.broker.IsConnected(name))
		if !known {
			r.looked = time.Time{}
		}
		if !back {
			continue
		}
		if err := r.storeLog.broker.RemovePeer(ctx, name); err != nil {
			r.looked = time.Time{}
			r.log.Debug("the server of a node that was replaced still counts", "node", name, "error", err)
			continue
		}
		r.log.Warn("the NATS server of a node that was replaced is removed: if that node runs again, stop it for good", "node", name)
	}
}

// comesBack reports whether a node that was replaced has come back with its old disk, by what it says, or has ended. With an
// empty disk it is a new node that waits for a place. Nothing is known of one that has just started, and has said nothing yet.
func comesBack(name string, heard []cluster.MemberStatus, connected bool) (back, known bool) {
	at := slices.IndexFunc(heard, func(m cluster.MemberStatus) bool { return m.Name == name && m.Runs })
	if at < 0 {
		return !connected, !connected
	}
	return heard[at].HadPart, true
}
