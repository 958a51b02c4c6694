package bridge

import "errors"

// errOwned ends a transaction of pops that another bridge is to serve.
var errOwned = errors.New("another bridge pops the queue")

// lost notes that the transaction has lost a conflict. If another bridge owns the queue, that
// one gets the requests: this one would lose again and again, and they would wait.
func (t *popTransaction) lost() error {
	if t.exclusive { // it conflicted with another transaction of this bridge
		return nil
	}
	t.owners.Lost(t.lane.queue.Name())
	if owner, own := t.owners.Owner(t.lane.queue.Name()); owner == "" || own || t.keeps {
		return nil
	}
	return errOwned
}

// passOn passes the new pops on to the owner of the queue. Those that wait stay: their time
// runs here.
func (t *popTransaction) passOn() {
	waited := len(t.waiting.Pops)
	kept := t.todo[:waited:waited]
	for _, r := range t.todo[waited:] {
		if r.peeks || r.acks != nil || !t.owners.Pass(t.lane.queue.Name(), r.Msg) {
			kept = append(kept, r)
			continue
		}
		t.Gate.Leave(&r.Request)
		r.End()
	}
	t.todo, t.keeps = kept, true
	t.tryAll()
}
