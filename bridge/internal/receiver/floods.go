package receiver

import "sync/atomic"

// Floods tells a connection which messages the receiver would refuse unread: those of tenants
// that flood it. The connection then does not have to read them. The zero value is ready for
// use, and nil knows of no flood.
type Floods struct {
	refuse atomic.Pointer[func(subject, reply string) bool] // nil: nobody floods
}

// Any reports whether anybody floods the receiver.
func (f *Floods) Any() bool { return f != nil && f.refuse.Load() != nil }

// Refuse has a message refused if its tenant floods, and reports whether it was.
func (f *Floods) Refuse(subject, reply string) bool {
	if f == nil {
		return false
	}
	refuse := f.refuse.Load()
	return refuse != nil && (*refuse)(subject, reply)
}

// tell has messages refused by a function, or not any more.
func (f *Floods) tell(refuse *func(subject, reply string) bool) {
	if f != nil {
		f.refuse.Store(refuse)
	}
}
