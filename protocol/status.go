package protocol

// Codes of answers.
const (
	CodeEndOfBatch    = 204
	CodeBadRequest    = 400
	CodeForbidden     = 403
	CodeNotFound      = 404
	CodeTimeout       = 408
	CodeConflict      = 409
	CodeLeaseLost     = 410
	CodeTooLarge      = 413
	CodeBusy          = 429
	CodeInternal      = 500
	CodeUnavailable   = 503 // also the server's answer to a message without a receiver
	CodeUnknownResult = 504
	CodeDamaged       = 506
)

// ErrorCodes are the codes that an error may have, in ascending order.
var ErrorCodes = [...]int{
	CodeBadRequest, CodeForbidden, CodeNotFound, CodeTimeout, CodeConflict, CodeLeaseLost, CodeTooLarge,
	CodeBusy, CodeInternal, CodeUnavailable, CodeUnknownResult, CodeDamaged,
}

// The two statuses that are compared as text.
const (
	StatusEndOfBatch   = "204" // status of the message behind the last item of a batch
	StatusNoResponders = "503" // status of a server's answer to a message without a receiver
)

// NoResponders reports whether a message with this status and body is the server's, which says that nobody received
// the request.
func NoResponders(status string, body []byte) bool {
	return status == StatusNoResponders && len(body) == 0
}

// Descriptions that replace the usual one of a code.
const (
	DescriptionEndOfBatch = "EOB"
	DescriptionNotFound   = "Not Found"
	DescriptionShutdown   = "Server Shutdown"
	DescriptionOccupied   = "Occupied"
	DescriptionLeased     = "Leased"
	DescriptionNotLeased  = "Not Leased"

	DescriptionLeaseRequired = "Lease Required"
	DescriptionOnlyMin       = "Only Min"
	DescriptionAnotherKey    = "Another Key"

	DescriptionPending = "Pending"
	DescriptionUnkept  = "Unkept"

	DescriptionHeld   = "Held"
	DescriptionBehind = "Behind"
)

// Description returns the text of a code: the text that JetStream has for it, if JetStream has the code.
func Description(code int) string {
	switch code {
	case CodeEndOfBatch:
		return DescriptionEndOfBatch
	case CodeBadRequest:
		return "Bad Request"
	case CodeForbidden:
		return "Forbidden"
	case CodeNotFound:
		return "No Messages"
	case CodeTimeout:
		return "Request Timeout"
	case CodeConflict:
		return "Exceeded MaxWaiting"
	case CodeLeaseLost:
		return "Lease Lost"
	case CodeTooLarge:
		return "Message Size Exceeds Maximum"
	case CodeBusy:
		return "Too Many Requests"
	case CodeUnavailable:
		return "Service Unavailable"
	case CodeUnknownResult:
		return "Unknown Result"
	case CodeDamaged:
		return "Store Damaged"
	}
	return "Internal Error"
}

// Reason says more than a code: it stands in the header PQ-Reason.
type Reason string

// Reasons of 404: why there is nothing to pop, or no such item or queue.
const (
	ReasonEmpty   Reason = "empty"
	ReasonLeased  Reason = "leased"  // no item is ready, some are leased
	ReasonDelayed Reason = "delayed" // no item is ready, some are delayed
	ReasonPaused  Reason = "paused"
	ReasonRate    Reason = "rate"    // the rate of the queue allows no delivery now
	ReasonBlocked Reason = "blocked" // the ready items wait for their keys
	ReasonBand    Reason = "band"    // items are ready, and all of them outside the band
	ReasonUnknown Reason = "unknown" // no such queue, or no such item
	ReasonPending Reason = "pending" // the item has not ended, so there is no result yet
)

// Reasons of 410: why a lease is lost.
const (
	ReasonGone     Reason = "gone"     // the item was acknowledged, given up or removed
	ReasonTaken    Reason = "taken"    // another consumer has it
	ReasonReturned Reason = "returned" // the item was given back
	ReasonExpired  Reason = "expired"  // the lease ran out

	ReasonCancelled Reason = "cancelled" // the item was cancelled, and its queue keeps that
)

// Reasons of 429: which limit is reached.
const (
	ReasonBusy          Reason = "busy"           // requests in flight, at the bridge
	ReasonFull          Reason = "full"           // items in the queue
	ReasonRemembered    Reason = "remembered"     // ids that the queue remembers
	ReasonResults       Reason = "results"        // bytes of results that the queue keeps
	ReasonSchedules     Reason = "schedules"      // schedules of the queue
	ReasonSources       Reason = "sources"        // sources of the queue, or of the store
	ReasonLinks         Reason = "links"          // links of the queue, or of the store
	ReasonQuotaRequests Reason = "quota_requests" // requests a second of a tenant
	ReasonQuotaQueues   Reason = "quota_queues"   // queues of a tenant
	ReasonQuotaItems    Reason = "quota_items"    // items of a tenant
	ReasonQuotaBytes    Reason = "quota_bytes"    // bytes of items of a tenant
	ReasonQuotaWaiting  Reason = "quota_waiting"  // waiting pops of a tenant
	ReasonStoreFull     Reason = "store_full"     // bytes in the store's log, or on a disk that it is on
)

// Reasons of 409, which has none if too many pops wait.
const (
	ReasonOccupied      Reason = "occupied"       // another item has the place, or the unique value, of the imported one
	ReasonLeaseRequired Reason = "lease_required" // the queue counts leases of keys, so a pop has to lease
	ReasonOnlyMin       Reason = "only_min"       // the queue knows only the next item of each key, so only pop.min works
	ReasonNotLeased     Reason = "not_leased"     // there is no lease to revoke
	ReasonAnotherKey    Reason = "another_key"    // the item to be replaced has another key
	ReasonHeld          Reason = "held"           // a link holds the item, or items
	ReasonUnkept        Reason = "unkept"         // the push of the item did not ask for its result
	ReasonGiverBehind   Reason = "giver_behind"   // the store of a link has lost its end
	ReasonTakerBehind   Reason = "taker_behind"   // the store that takes from a link has lost its end
)

// Replies reports whether the queue has the results for one program of Celery's rpc://: its name is a UUID, and its items, or the
// queue when it is empty, do not stay for ever. Nobody asks for what comes there when its program has ended, and nobody has to.
func (i *Info) Replies() bool {
	return (i.Config.TTL > 0 || i.Config.ExpireEmpty > 0) && isUUID(i.Queue)
}

// isUUID reports whether a text is a UUID as Python writes it.
func isUUID(text string) bool {
	const form = "00000000-0000-0000-0000-000000000000"
	if len(text) != len(form) {
		return false
	}
	for i := range form {
		c := text[i]
		if (form[i] == '-') != (c == '-') || c != '-' && (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

// Stands reports whether something keeps items or pushes that somebody may have to end: see [Cause.Wrong].
func (i *Info) Stands() bool {
	return i.Explain.Cause.Wrong() && (i.Explain.Cause != CauseNoWorkers || !i.Replies())
}
