package batch

// queueLine has the requests of a key that wait. [Lanes].mu guards its fields.
type queueLine[R any] struct {
	key     string
	pending []R
	served  bool // a lane serves it
}
