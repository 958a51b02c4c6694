package node

import (
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster"
	"github.com/pqbridge/pqbridge/protocol"
)

// view is this node's view of all nodes of the store.
type view struct {
	name, store, version string
	db                   *cluster.DB
}

// cluster describes all nodes.
func (v *view) cluster() protocol.Cluster {
	s := v.db.Status()
	epoch := s.Epoch
	for _, o := range s.Members {
		epoch = max(epoch, o.Epoch)
	}
	all := []protocol.Member{{
		Node: v.name, Role: protocol.Role(s.Role), Version: v.version,
		Epoch: s.Epoch, Entry: s.Entry, Synced: s.Synced, Lag: s.Lag(s.Entry), Reason: s.Reason,
	}}
	for _, o := range s.Members {
		role := protocol.Role(o.Role)
		if !o.Runs || role == protocol.RoleActive && o.Epoch < epoch { // a later one is active now
			role = protocol.RoleSilent
		}
		all = append(all, protocol.Member{
			Node: o.Name, Role: role, Version: o.Version,
			Epoch: o.Epoch, Entry: o.Entry, Synced: o.Synced, Lag: s.Lag(o.Entry), Reason: o.Reason,
			Heard: time.Since(o.Heard).Seconds(),
		})
	}
	return protocol.Cluster{
		Node: v.name, Store: v.store, Members: all,
		Log: protocol.ClusterLog{First: s.Log.First, Last: s.Log.Last, Bytes: s.Log.Bytes, MaxBytes: s.Log.MaxBytes},
	}
}
