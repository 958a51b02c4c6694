package cluster

import "errors"

// release is a request to step down.
type release struct {
	successor string
	done      chan error
}

// ErrNotActive: the member is not the active one.
var ErrNotActive = errors.New("kv/cluster: this member is not active")

// ErrNoSuccessor: no other member can take over.
var ErrNoSuccessor = errors.New("kv/cluster: no other member can take over")

// errReleased: the member has stepped down, or is about to.
var errReleased = errors.New("this member has stepped down")
