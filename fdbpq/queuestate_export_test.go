package fdbpq

// StateNewest is the newest format of a queue's state that this program reads.
const StateNewest = int64(stateNewest)

// StateRow is the state of a new queue with a configuration.
func StateRow(config Config) ([]byte, error) {
	return (&queueState{generation: 1, born: 1, exists: true, config: config}).pack()
}

// DefaultConfig is the configuration of a queue without one.
func DefaultConfig() Config { return defaultConfig() }
