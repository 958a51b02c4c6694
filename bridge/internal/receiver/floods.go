package receiver

import "sync/atomic"

// Floods tells a connection which messages the receiver would refuse unread: the messages of tenants that flood it. The
// connection then need not read them. The zero value is ready for use, and nil knows of no flood.
type Floods struct {
	refuse atomic.Pointer[func(subject, reply string) bool] // nil: no tenant floods
}

// Any reports whether any tenant floods the receiver.
func (f *Floods) Any() bool { return f != nil && f.refuse.Load() != nil }

// Refuse refuses a message if its tenant floods, and reports whether it did.
func (f *Floods) Refuse(subject, reply string) bool {
	if f == nil {
		return false
	}
	refuse := f.refuse.Load()
	return refuse != nil && (*refuse)(subject, reply)
}

// tell sets the function that refuses messages; nil ends that.
func (f *Floods) tell(refuse *func(subject, reply string) bool) {
	if f != nil {
		f.refuse.Store(refuse)
	}
}
