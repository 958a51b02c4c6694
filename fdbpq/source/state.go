package source

// State is what a source does.
type State string

const (
	StateRunning  State = "running"
	StateStarting State = "starting" // nobody has spoken with the stream yet
	StatePaused   State = "paused"
	StateBlocked  State = "blocked"   // the queue or the store is full
	StateFailing  State = "failing"   // the stream cannot be read
	StateNoRunner State = "no_runner" // nobody runs it
	StateStopped  State = "stopped"   // a person has to look
)
