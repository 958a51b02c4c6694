package batch

// queueLine has the requests of a key that wait. [Lanes].mu guards its fields.
type queueLine[R, J any] struct {
	key     string
	pending []R
	joined  []J
	woken   bool // Serve was called since the last batch
	served  bool // a lane serves it
}
