package protocol

import "time"

// Limits that hold for every bridge. A bridge reports its own limits in its
// [System].
const (
	// MaxWait is the longest that a pop waits; longer waits are cut to it. It is below
	// the two minutes after which a server forgets the reply subject of a request that
	// crossed accounts.
	MaxWait = 110 * time.Second

	// MaxWaitUnseen is the longest that a pop waits whose client the bridge cannot see: it cannot find out whether
	// the client still listens.
	MaxWaitUnseen = 10 * time.Second

	// MaxBands bounds the different bands for which pops wait at a queue. All priorities
	// do not count as a band.
	MaxBands = 512

	// MaxRequestBody bounds the bodies of requests that neither push nor define anything:
	// queries, filters, settlements, pops. They are read one after another, before
	// anything else is known of the request. The longest id and the longest reason fit,
	// even if JSON escapes all of their bytes.
	MaxRequestBody = 8 << 10

	// MaxPopBody is that of a pop, MaxBulkBody that of a bulk operation.
	MaxPopBody  = MaxRequestBody
	MaxBulkBody = MaxRequestBody

	// MaxBulk bounds the changes of a page of a bulk operation.
	MaxBulk = 500

	// MaxBundledSettlement is how many bytes a bundle of settlements may have for each of
	// them, taken together. A settlement of it alone may have up to MaxRequestBody.
	MaxBundledSettlement = 2 << 10

	// MaxDefinition bounds what a configuration, the settings of a key, a source or a link
	// is, and a schedule beside its payload. The largest of them fits, even if JSON escapes
	// all of its bytes.
	MaxDefinition = 64 << 10

	// MaxSchedulePayload bounds what a schedule pushes, MaxScheduleBody a schedule with a
	// payload of which JSON escapes all bytes.
	MaxSchedulePayload = 64 << 10
	MaxScheduleBody    = MaxDefinition + 6*MaxSchedulePayload

	// MaxReason bounds the reason of +TERM, which travels in a header of the dead
	// item.
	MaxReason = 200

	// MaxNackReason bounds the reason of -NAK and of a revoke.
	MaxNackReason = 1 << 10

	// MaxAttemptsText bounds the attempts of an imported item.
	MaxAttemptsText = 8 << 10

	// MaxPayload bounds an item's payload and headers, whatever the server allows.
	MaxPayload = 8 << 20

	// DefaultListLimit is the length of a page unless a request says otherwise.
	DefaultListLimit = 100

	// MaxPreview bounds the beginnings of payloads in a list.
	MaxPreview = 1024

	// MaxKeysPage bounds a page of keys, each of which is counted.
	MaxKeysPage = 100
)

// Bounds of a header block. Headers are read one by one before anything else
// can be done with a message, and an item brings them along wherever it goes.
const (
	MaxHeaderLines = 1000
	MaxHeaderBytes = 64 << 10
)

// ItemBytes is what each item counts of a queue's max_bytes besides its payload and headers.
const ItemBytes = 512
