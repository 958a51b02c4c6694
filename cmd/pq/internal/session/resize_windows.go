package session

// WatchSize does nothing: Windows has no signal for it. The size is read at each
// redraw.
func (t *Tty) WatchSize() (stop func()) { return func() {} }
