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

	CostTokens *int64 `json:"cost_tokens,omitempty"` // how much cost Config.CostRate allows now; negative: what the queue owes
	Cost       *Cost  `json:"cost,omitempty"`        // what the deliveries cost that were settled through the answering bridge, if a rate bounds cost

	Results      int64 `json:"results,omitempty"`       // that are kept
	ResultsBytes int64 `json:"results_bytes,omitempty"` // that they take, of Config.ResultBytes

	Schedules    int64     `json:"schedules,omitempty"`
	NextSchedule time.Time `json:"next_schedule,omitzero"` // the next time that a schedule has; zero: there is none, or there are too many schedules to look at

	// History is there if the request asked for it.
	History *History `json:"history,omitempty"`
}

// Cost compares what deliveries had reserved with what they have cost by the word of their holders.
type Cost struct {
	Reserved int64 `json:"reserved"`
	Spent    int64 `json:"spent"`
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
	Nacked []int64 `json:"nacked"` // attempts that failed: of the settled items those that came back by -NAK

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
	Nack   float64 `json:"nack,omitempty"` // of the settled items those that failed
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

// QueuesRequest is the body of a request for the names of the queues. With After or Prefix the answer is a
// [QueuesPage], otherwise [Queues], to which Offset belongs.
type QueuesRequest struct {
	Offset int64   `json:"offset,omitempty"`
	Limit  int     `json:"limit,omitempty"`
	After  *string `json:"after,omitempty"`  // the page begins behind this name, which need not be a queue
	Prefix string  `json:"prefix,omitempty"` // the beginning of the names
}

// QueuesPage is a page of names. Unlike [Queues] it costs the same however many queues
// there are.
type QueuesPage struct {
	Queues []string `json:"queues"`
	Next   string   `json:"next,omitempty"` // After of the next page; "": this is the last page

	// Absent are queues that do not exist, with pops that wait for their first items at the answering bridge: a worker may have a
	// wrong name. They are the first ones of those whose names lie between the beginning of the page and Next.
	Absent []AbsentQueue `json:"absent,omitempty"`
}

// AbsentQueue is a queue that does not exist, and for which pops wait.
type AbsentQueue struct {
	Queue   string `json:"queue"`
	Waiting int    `json:"waiting"` // pops
}

// MaxAbsent bounds the absent queues of a page.
const MaxAbsent = 100

// Queues is the answer to a QueuesRequest without After and Prefix.
type Queues struct {
	Total  int      `json:"total"`
	Offset int64    `json:"offset"`
	Limit  int      `json:"limit"`
	Queues []string `json:"queues"`
}

// System is what a bridge reports about itself.
type System struct {
	Version string  `json:"version"`
	Store   string  `json:"store"`
	StoreID string  `json:"store_id"`
	Prefix  string  `json:"prefix"`
	Site    string  `json:"site,omitempty"` // the name of its site: clients at other sites write it in front of the prefix
	Limits  Limits  `json:"limits"`
	Uptime  float64 `json:"uptime"` // for how many seconds it has run

	// Damage describes the store's damaged files, and the queues that they may concern.
	Damage []string `json:"damage,omitempty"`

	// Disk is the room on the disk of the store, or of this bridge's copy, if the bridge knows it.
	Disk *Disk `json:"disk,omitempty"`

	// Cluster are the pqd that keep the store together, if several do.
	Cluster *Cluster `json:"cluster,omitempty"`

	// Tenant is the tenant that asks, if one does.
	Tenant *Tenant `json:"tenant,omitempty"`

	// History of all queues is there if the request asked for it.
	History *History `json:"history,omitempty"`
}

// Disk is the room on the disk of a store, in bytes.
type Disk struct {
	Free    int64 `json:"free"` // how many bytes pqd may still write
	Size    int64 `json:"size"`
	MinFree int64 `json:"min_free"` // with less free than this the store takes no new items; 0: it always does

	// EndsOnly: hardly any room is left, so only requests that end items are served.
	EndsOnly bool `json:"ends_only,omitempty"`
}

// Tenant says what a tenant has, and what its quotas are.
type Tenant struct {
	Name   string `json:"name"`
	Queues int64  `json:"queues"`
	Items  int64  `json:"items"`
	Bytes  int64  `json:"bytes"`
	Quotas Quotas `json:"quotas"`

	// Charged is how many requests the bridge has charged the tenant, with what costs as much as requests.
	Charged int64 `json:"charged"`
}

// Quotas bound what a tenant has and does. 0: no bound.
type Quotas struct {
	Queues   int64 `json:"queues"`
	Items    int64 `json:"items"`
	Bytes    int64 `json:"bytes"`
	Requests int64 `json:"requests"` // requests a second
	Waiting  int64 `json:"waiting"`  // waiting pops
}

// Limits are the limits of a bridge.
type Limits struct {
	Requests   int      `json:"requests"`
	Bytes      int64    `json:"bytes"`
	Waiters    int      `json:"waiters"`
	Batch      int      `json:"batch"`
	BatchBytes int      `json:"batch_bytes"`
	Bundle     int      `json:"bundle"` // items of one bundle; 0: the bridge knows no bundles
	Wait       Duration `json:"wait"`
	WaitUnseen Duration `json:"wait_unseen,omitempty"` // the longest wait of a client that the bridge cannot see; 0: the bridge makes no difference
	Lease      Duration `json:"lease"`
	Payload    int64    `json:"payload"`               // the most bytes of an item, with its headers
	QueueBytes int64    `json:"queue_bytes,omitempty"` // the most bytes of the items of any queue, and of its results, whatever its max_bytes and result_bytes; 0: no limit
}
