package protocol

// HeaderPrefix begins the names of the headers of this protocol.
const HeaderPrefix = "PQ-"

// UntilLeased is the value of HeaderUniqueUntil.
const UntilLeased = "leased"

// Headers of requests. HeaderPriority, HeaderKey, HeaderNotBefore, HeaderUnique and
// HeaderUniqueUntil also come with items.
const (
	HeaderPriority  = "PQ-Priority"
	HeaderDelay     = "PQ-Delay"
	HeaderNotBefore = "PQ-Not-Before"
	HeaderTTL       = "PQ-TTL"
	HeaderSettle    = "PQ-Settle"
	HeaderKey       = "PQ-Key"
	HeaderWeight    = "PQ-Weight"

	HeaderUnique      = "PQ-Unique"
	HeaderUniqueUntil = "PQ-Unique-Until"
	HeaderOnConflict  = "PQ-On-Conflict"

	HeaderBundle = "PQ-Bundle"
	HeaderEach   = "PQ-Each" // of a bundle of pushes: each item is pushed or refused on its own
	HeaderBatch  = "PQ-Batch"
	HeaderWait   = "PQ-Wait"
	HeaderLease  = "PQ-Lease"
	HeaderBand   = "PQ-Band"
	HeaderHolder = "PQ-Holder" // also of a leased item that is shown
	HeaderRepeat = "PQ-Repeat"

	HeaderConfirm = "PQ-Confirm"  // of a pop: instead of a lease; of its item: until when
	HeaderMsgID   = "Nats-Msg-Id" // as JetStream has it

	// HeaderForwarded is of administrative requests that came by HTTP: the address of the client, for the log alone.
	HeaderForwarded = "X-Forwarded-For"
)

// Headers of items, as they are answered and imported.
const (
	HeaderID           = "PQ-Id"
	HeaderDeliveries   = "PQ-Deliveries"
	HeaderFence        = "PQ-Fence"
	HeaderKeyFence     = "PQ-Key-Fence"
	HeaderAck          = "PQ-Ack"
	HeaderLeaseExpires = "PQ-Lease-Expires"
	HeaderBackoff      = "PQ-Backoff"
	HeaderAttempts     = "PQ-Attempts"
	HeaderNumPending   = "PQ-Num-Pending"
	HeaderState        = "PQ-State"
	HeaderWaitsFor     = "PQ-Waits-For"
	HeaderKeyAhead     = "PQ-Key-Ahead"
	HeaderExplain      = "PQ-Explain"      // an Explain as JSON
	HeaderHeld         = "PQ-Held"         // leased without an end, by a link
	HeaderTimeStamp    = "Nats-Time-Stamp" // as JetStream has it
	HeaderDeadReason   = "PQ-Dead-Reason"
	HeaderDeadAt       = "PQ-Dead-At"
	HeaderDeadNumber   = "PQ-Dead-Deliveries"
	HeaderOrigin       = "PQ-Origin"
	HeaderOriginID     = "PQ-Origin-Id"
	HeaderExpires      = "PQ-Expires"
	HeaderSchedule     = "PQ-Schedule"     // the schedule that has pushed the item
	HeaderScheduledAt  = "PQ-Scheduled-At" // the time for which it did

	HeaderSource        = "PQ-Source"         // the source that has pushed the item
	HeaderSourceSubject = "PQ-Source-Subject" // of its message
	HeaderSourceSeq     = "PQ-Source-Seq"     // the number of that in the stream
	HeaderSourceTime    = "PQ-Source-Time"    // when the stream got it
	HeaderSourceMsgID   = "PQ-Source-Msg-Id"  // its Nats-Msg-Id
	HeaderSourceID      = "PQ-Source-Id"      // of a link: the id that the item had
)

// Headers of items that say how their leases ended, each missing if it is 0.
const (
	HeaderFailures          = "PQ-Failures"
	HeaderInterruptions     = "PQ-Interruptions"
	HeaderReturns           = "PQ-Returns"
	HeaderDeadInterruptions = "PQ-Dead-Interruptions"
)

// Headers of what a link answers.
const (
	HeaderLinkBatch = "PQ-Link-Batch" // the number of the batch, its id, and that of the batch before it
	HeaderLinkPart  = "PQ-Link-Part"  // of an answer with a part: the number of items before it, and that of all of the batch
	HeaderLinkGiver = "PQ-Link-Giver" // the id of the store
)

// Headers of answers that are no items. The error's text and code are in
// Nats-Service-Error and Nats-Service-Error-Code, as NATS services have them.
const (
	HeaderStatus      = "Status"
	HeaderDescription = "Description"
	HeaderReason      = "PQ-Reason"
)
