package protocol

// QueuesRequest is the body of a request for the names of the queues. With After or Prefix a
// [QueuesPage] answers it, without Offset, otherwise [Queues].
type QueuesRequest struct {
	Offset int64   `json:"offset,omitempty"`
	Limit  int     `json:"limit,omitempty"`
	After  *string `json:"after,omitempty"`  // begin behind this name, which need not be a queue's
	Prefix string  `json:"prefix,omitempty"` // of the names
}

// QueuesPage is a page of names. Unlike [Queues] it costs the same however many queues
// there are.
type QueuesPage struct {
	Queues []string `json:"queues"`
	Next   string   `json:"next,omitempty"` // After of the next page; "" when this is the last one
}

// Queues answers it.
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
	Site    string  `json:"site,omitempty"` // its name stands in front of the prefix for clients at other sites
	Limits  Limits  `json:"limits"`
	Uptime  float64 `json:"uptime"` // seconds

	// Damage describes the store's damaged files, and the queues that they may concern.
	Damage []string `json:"damage,omitempty"`

	// Disk is the room where the store is, or this bridge's copy of it, if the bridge knows.
	Disk *Disk `json:"disk,omitempty"`

	// Cluster are the pqd that keep the store together, if several do.
	Cluster *Cluster `json:"cluster,omitempty"`

	// Tenant is the tenant that asks, if one does.
	Tenant *Tenant `json:"tenant,omitempty"`

	// History of all queues is there if it was asked for.
	History *History `json:"history,omitempty"`
}

// Disk is the room on the disk of a store, in bytes.
type Disk struct {
	Free    int64 `json:"free"` // that pqd may still write
	Size    int64 `json:"size"`
	MinFree int64 `json:"min_free"` // with less than that the store takes no new items; 0: it always does
}

// Tenant is what a tenant has, and its quotas.
type Tenant struct {
	Name   string `json:"name"`
	Queues int64  `json:"queues"`
	Items  int64  `json:"items"`
	Bytes  int64  `json:"bytes"`
	Quotas Quotas `json:"quotas"`
}

// Quotas bound what a tenant has and does. 0: no bound.
type Quotas struct {
	Queues   int64 `json:"queues"`
	Items    int64 `json:"items"`
	Bytes    int64 `json:"bytes"`
	Requests int64 `json:"requests"` // a second
	Waiting  int64 `json:"waiting"`  // pops
}

// Limits are the limits of a bridge.
type Limits struct {
	Requests   int      `json:"requests"`
	Bytes      int64    `json:"bytes"`
	Waiters    int      `json:"waiters"`
	Batch      int      `json:"batch"`
	BatchBytes int      `json:"batch_bytes"`
	Bundle     int      `json:"bundle"` // items of one; 0: the bridge knows no bundles
	Wait       Duration `json:"wait"`
	WaitUnseen Duration `json:"wait_unseen,omitempty"` // of a client that the bridge cannot see; 0: the bridge makes no difference
	Lease      Duration `json:"lease"`
	Payload    int64    `json:"payload"`               // of an item, with its headers
	QueueBytes int64    `json:"queue_bytes,omitempty"` // of any queue, whatever its max_bytes; 0: no limit
}
