package protocol

import (
	"fmt"
	"strconv"
	"time"
)

// HeaderPrefix begins the names of the headers of this protocol.
const HeaderPrefix = "PQ-"

// UntilLeased is the value of HeaderUniqueUntil.
const UntilLeased = "leased"

// Headers of requests. HeaderPriority, HeaderKey, HeaderNotBefore, HeaderUnique,
// HeaderUniqueUntil, HeaderResultTTL and HeaderCost also come with items.
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

	HeaderResultTTL = "PQ-Result-TTL" // for how long the queue keeps what becomes of the item
	HeaderCost      = "PQ-Cost"       // of a push: of each delivery of the item; of a settlement: of this delivery, as it turned out

	HeaderBundle = "PQ-Bundle"
	HeaderEach   = "PQ-Each"   // of a bundle of pushes: each item is pushed or refused on its own
	HeaderFrames = "PQ-Frames" // of a bundle of settlements: each has a frame in place of a line, and may have a result
	HeaderBatch  = "PQ-Batch"
	HeaderWait   = "PQ-Wait"
	HeaderLease  = "PQ-Lease"
	HeaderBand   = "PQ-Band"
	HeaderHolder = "PQ-Holder" // also of a leased item that is shown
	HeaderRepeat = "PQ-Repeat"

	HeaderConfirm = "PQ-Confirm"  // of a pop: in place of a lease, for how long the item is kept until it is acknowledged; of its item: until when
	HeaderMsgID   = "Nats-Msg-Id" // as JetStream has it

	// HeaderForwarded has the address of the client, in administrative requests that came by HTTP. Only the log
	// shows it.
	HeaderForwarded = "X-Forwarded-For"
)

// Headers of items, in answers and in imports.
const (
	HeaderID           = "PQ-Id"
	HeaderDeliveries   = "PQ-Deliveries"
	HeaderFence        = "PQ-Fence"
	HeaderKeyFence     = "PQ-Key-Fence"
	HeaderAck          = "PQ-Ack"
	HeaderLeaseExpires = "PQ-Lease-Expires"
	HeaderBackoff      = "PQ-Backoff"
	HeaderProgress     = "PQ-Progress"    // what the last holder that said anything has said of how far it is
	HeaderProgressAt   = "PQ-Progress-At" // when it did
	HeaderAttempts     = "PQ-Attempts"
	HeaderNumPending   = "PQ-Num-Pending"
	HeaderState        = "PQ-State"
	HeaderWaitsFor     = "PQ-Waits-For"
	HeaderKeyAhead     = "PQ-Key-Ahead"
	HeaderExplain      = "PQ-Explain"      // an [Explain] as JSON
	HeaderHeld         = "PQ-Held"         // a link holds the item: a lease without an end
	HeaderTimeStamp    = "Nats-Time-Stamp" // as JetStream has it
	HeaderDeadReason   = "PQ-Dead-Reason"
	HeaderDeadAt       = "PQ-Dead-At"
	HeaderDeadNumber   = "PQ-Dead-Deliveries"
	HeaderOrigin       = "PQ-Origin"
	HeaderOriginID     = "PQ-Origin-Id"
	HeaderExpires      = "PQ-Expires"
	HeaderSchedule     = "PQ-Schedule"     // the schedule that has pushed the item
	HeaderScheduledAt  = "PQ-Scheduled-At" // the time for which the schedule pushed it

	HeaderSource        = "PQ-Source"         // the source that has pushed the item
	HeaderSourceSubject = "PQ-Source-Subject" // the subject of the message
	HeaderSourceSeq     = "PQ-Source-Seq"     // the number of the message in the stream
	HeaderSourceTime    = "PQ-Source-Time"    // when the stream got the message
	HeaderSourceMsgID   = "PQ-Source-Msg-Id"  // the Nats-Msg-Id of the message
	HeaderSourceID      = "PQ-Source-Id"      // from a link: the id that the item had at its giver
)

// Headers of items that say how their leases ended, each missing if it is 0.
const (
	HeaderFailures          = "PQ-Failures"
	HeaderInterruptions     = "PQ-Interruptions"
	HeaderReturns           = "PQ-Returns"
	HeaderDeadInterruptions = "PQ-Dead-Interruptions"
)

// Headers of the answers of a link.
const (
	HeaderLinkBatch = "PQ-Link-Batch" // the number of the batch, its id, and the id of the batch before it
	HeaderLinkPart  = "PQ-Link-Part"  // of an answer with a part of a batch: the number of items before the part, and the number of all items of the batch
	HeaderLinkGiver = "PQ-Link-Giver" // the id of the giver's store
)

// Headers of results. The bodies of their answers are what the holders of the items said. HeaderDeadReason and HeaderDeliveries come
// with them, too.
const (
	HeaderOutcome      = "PQ-Outcome" // how the item ended, see [Finish]
	HeaderFinishedAt   = "PQ-Finished-At"
	HeaderCancelReason = "PQ-Cancel-Reason" // of a cancelled item: why
	HeaderDeadCause    = "PQ-Dead-Cause"    // of a dead item: what it failed of last, where HeaderDeadReason does not say it
	HeaderDeadLetter   = "PQ-Dead-Letter"   // of a dead item: the queue that has it now
	HeaderNext         = "PQ-Next"          // of an item handed over: the queue that has it now, or link:<name>
	HeaderNextID       = "PQ-Next-Id"       // its id there
	HeaderNote         = "PQ-Note"          // of an extension: dropped, if there was no room for what it said
	HeaderResult       = "PQ-Result"        // of a settlement: what became of its result; of a result without its bytes: dropped
)

// Headers of answers that are no items. Answers of errors also have the error's text and code, as all NATS services
// do, in Nats-Service-Error and Nats-Service-Error-Code.
const (
	HeaderStatus      = "Status"
	HeaderDescription = "Description"
	HeaderReason      = "PQ-Reason"
)

// ReadValue reads the value of a header of an item. to points to a text, a number, a duration or a time, which stays as it is if the value
// cannot be read.
func ReadValue(to any, value string) error {
	switch to := to.(type) {
	case *string:
		*to = value
		return nil
	case *State:
		*to = State(value)
		return nil
	case *int:
		return readAs(to, value, strconv.Atoi)
	case *int64:
		return readAs(to, value, func(s string) (int64, error) { return strconv.ParseInt(s, 10, 64) })
	case *uint64:
		return readAs(to, value, func(s string) (uint64, error) { return strconv.ParseUint(s, 10, 64) })
	case *time.Duration:
		return readAs(to, value, time.ParseDuration)
	case *Duration:
		return readAs(to, value, func(s string) (Duration, error) {
			d, err := time.ParseDuration(s)
			return Duration(d), err
		})
	case *time.Time:
		return readAs(to, value, func(s string) (time.Time, error) { return time.Parse(time.RFC3339Nano, s) })
	}
	return fmt.Errorf("no header has a value for a %T", to)
}

// readAs sets a value from a text if the text can be read.
func readAs[T any](to *T, text string, read func(string) (T, error)) error {
	value, err := read(text)
	if err == nil {
		*to = value
	}
	return err
}
