package protocol

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
