package history

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"time"
)

// Recorder gathers the operations of clients that run side by side.
type Recorder struct {
	began time.Time

	mu         sync.Mutex
	operations []Operation
}

// NewRecorder begins a history now.
func NewRecorder() *Recorder { return &Recorder{began: time.Now()} }

// Resume goes on with a history, at a moment that comes after all of it.
func Resume(operations []Operation, at time.Duration) *Recorder {
	return &Recorder{began: time.Now().Add(-at), operations: slices.Clone(operations)}
}

// Now is the time since the history began.
func (r *Recorder) Now() time.Duration { return time.Since(r.began) }

// Add records operations. Without an answer their Return is [Never]; an operation that
// certainly did not happen is not recorded.
func (r *Recorder) Add(operations ...Operation) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.operations = append(r.operations, operations...)
}

// Operations are those recorded so far, in the order of their calls.
func (r *Recorder) Operations() []Operation {
	r.mu.Lock()
	defer r.mu.Unlock()
	sorted := slices.Clone(r.operations)
	slices.SortStableFunc(sorted, func(a, b Operation) int { return int(a.Call - b.Call) })
	return sorted
}

// Write writes a history to a file, one operation a line.
func Write(name string, operations []Operation) error {
	file, err := os.Create(name)
	if err != nil {
		return err
	}
	out := bufio.NewWriter(file)
	lines := json.NewEncoder(out)
	for _, o := range operations {
		if err := lines.Encode(o); err != nil {
			return errors.Join(err, file.Close())
		}
	}
	return errors.Join(out.Flush(), file.Close())
}

// Read reads what [Write] has written.
func Read(name string) ([]Operation, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var operations []Operation
	for lines := json.NewDecoder(bufio.NewReader(file)); ; {
		var o Operation
		switch err := lines.Decode(&o); {
		case errors.Is(err, io.EOF):
			return operations, nil
		case err != nil:
			return nil, fmt.Errorf("%s: operation %d: %w", name, len(operations)+1, err)
		}
		operations = append(operations, o)
	}
}
