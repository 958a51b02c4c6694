package protocol

import (
	"bytes"
	"fmt"
	"time"
)

// Info is the state of a queue, its rates and its configuration.
type Info struct {
	Queue         string  `json:"queue"`
	Ready         int64   `json:"ready"`
	Leased        int64   `json:"leased"`
	Held          int64   `json:"held,omitempty"` // leased items that links hold
	Delayed       int64   `json:"delayed"`
	Waiting       int     `json:"waiting"` // pops that wait, at the answering bridge
	Bytes         int64   `json:"bytes"`
	Overhead      int64   `json:"overhead,omitempty"`        // bytes of long unique values, keys, attempts and deaths
	Oldest        float64 `json:"oldest"`                    // age in seconds of the item that pop.min would take
	OldestOfAll   float64 `json:"oldest_of_all"`             // age in seconds of the oldest ready item, whatever its priority
	OldestAtLeast bool    `json:"oldest_at_least,omitempty"` // there are more priorities than were looked at, so an item may be older
	OldestLease   float64 `json:"oldest_lease"`              // age in seconds of the oldest lease, extensions included
	LeaseAtLeast  bool    `json:"lease_at_least,omitempty"`  // there are more leases than were looked at, so one may be older
	LatestLease   float64 `json:"latest_lease,omitempty"`    // how many seconds ago the latest of these leases began
	Rates         Rates   `json:"rates"`
	Paused        bool    `json:"paused"`
	Explain       Explain `json:"explain"`
	Config        Config  `json:"config"`
	FairReady     bool    `json:"fair_ready,omitempty"` // all keys stand in the order of Config.Fair, and pops go by it
	KeysSet       int64   `json:"keys_set,omitempty"`   // keys that have settings of their own
	KeysOwing     int64   `json:"keys_owing,omitempty"` // keys that have not all tokens of their rate
	Remembered    int64   `json:"remembered,omitempty"` // ids of pushes and pops, of Config.DedupLimit

	Results      int64 `json:"results,omitempty"`       // that are kept
	ResultsBytes int64 `json:"results_bytes,omitempty"` // that they take, of Config.ResultBytes

	Schedules    int64     `json:"schedules,omitempty"`
	NextSchedule time.Time `json:"next_schedule,omitzero"` // the next time that a schedule has; zero: there is none, or there are too many schedules to look at

	// History is there if the request asked for it.
	History *History `json:"history,omitempty"`
}

// InfoRequest is what the body of a request for info may say.
type InfoRequest struct {
	Local bool `json:"local,omitempty"` // the bridge explains what it knows, and asks no other one
}

// HistoryRequest is the body of a request for info that asks for a [History], too.
type HistoryRequest struct {
	History bool `json:"history,omitempty"`
}

// History is what went through one bridge in steps of equal length, the oldest first. The history of a queue has
// its lengths, the history of all queues together has failures.
type History struct {
	Bridge string    `json:"bridge"` // its id, as discovery has it
	Step   float64   `json:"step"`   // seconds
	End    time.Time `json:"end"`    // when the last step ended

	Push   []int64 `json:"push"` // items that were pushed in each step
	Pop    []int64 `json:"pop"`
	Settle []int64 `json:"settle"`

	Ready   []*int64 `json:"ready,omitempty"` // how many items there were when each step ended; null: nobody looked
	Leased  []*int64 `json:"leased,omitempty"`
	Delayed []*int64 `json:"delayed,omitempty"`

	Failed     []int64 `json:"failed,omitempty"` // requests with an error other than 404 and 408
	Dead       []int64 `json:"dead,omitempty"`   // items that became dead letters, or were dropped instead
	LeasesLost []int64 `json:"leases_lost,omitempty"`
}

// Rates are items a second through the answering bridge, averaged over about a minute.
type Rates struct {
	Push   float64 `json:"push"`
	Pop    float64 `json:"pop"`
	Settle float64 `json:"settle"`
}

// Purged is the answer to a purge.
type Purged struct {
	Purged int64 `json:"purged"` // items that were removed
}

// Named is the answer to a change of a queue that has no other result.
type Named struct {
	Queue string `json:"queue"`
}

// Duration is a time.Duration that JSON shows as 1m30s.
type Duration time.Duration

func (d Duration) String() string { return time.Duration(d).String() }

// MarshalText implements encoding.TextMarshaler.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *Duration) UnmarshalText(b []byte) error {
	v, err := time.ParseDuration(string(bytes.TrimSpace(b)))
	if err != nil {
		return fmt.Errorf("duration %q: expected a form like 30s or 1h30m", b)
	}
	*d = Duration(v)
	return nil
}
