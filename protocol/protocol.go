// Package protocol defines the messages between a bridge and its clients, except for subjects: the headers,
// statuses, settlement words, JSON bodies and limits of docs/protocol.md, each of them once.
//
// What one side marshals with these types, the other side reads with them. The package depends on no NATS library,
// no store and no other package of ours, so that a client contains no code of the bridge. Names and values are part
// of the protocol: there may be additions, and no changes.
package protocol

import (
	"bytes"
	"encoding/json"
	"time"
)

//go:generate go run github.com/pqbridge/pqbridge/internal/generate -root ..

// Marshal is json.Marshal, but leaves <, > and & as they are: people read the JSON, and it never stands in a page
// of HTML.
func Marshal(v any) ([]byte, error) {
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSuffix(text.Bytes(), []byte("\n")), err
}

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

	// MaxRequestBody bounds the bodies of requests that neither push nor define anything: queries, filters,
	// settlements, pops. The bridge reads these bodies one after another, before it knows anything else about the
	// request. The longest id and the longest reason fit, even if JSON escapes all of their bytes.
	MaxRequestBody = 8 << 10

	// MaxPopBody bounds the body of a pop, MaxBulkBody the body of a bulk operation.
	MaxPopBody  = MaxRequestBody
	MaxBulkBody = MaxRequestBody

	// MaxBulk bounds the changes of a page of a bulk operation.
	MaxBulk = 500

	// MaxCost bounds the cost of an item, and of a delivery.
	MaxCost = 1_000_000

	// MaxBundledSettlement is how many bytes a bundle of settlements may have for each of its settlements, all
	// together. A single settlement in it may have up to MaxRequestBody.
	MaxBundledSettlement = 2 << 10

	// MaxDefinition bounds the JSON of a configuration, of the settings of a key, of a source and of a link, and of
	// a schedule without its payload. The largest of them fits, even if JSON escapes all of its bytes.
	MaxDefinition = 64 << 10

	// MaxSchedulePayload bounds the payload of a schedule. MaxScheduleBody bounds the JSON of a schedule: it fits
	// even if JSON escapes all bytes of the payload.
	MaxSchedulePayload = 64 << 10
	MaxScheduleBody    = MaxDefinition + 6*MaxSchedulePayload

	// MaxReason bounds the reason of a +TERM, because it travels in a header of the dead letter.
	MaxReason = 200

	// MaxNackReason bounds the reason of -NAK, of a revoke and of a cancel.
	MaxNackReason = 1 << 10

	// MaxAttemptsText bounds the attempts of an imported item.
	MaxAttemptsText = 8 << 10

	// MaxPayload bounds an item's payload and headers, whatever the server allows.
	MaxPayload = 8 << 20

	// DefaultListLimit is the length of a page unless a request says otherwise.
	DefaultListLimit = 100

	// MaxPreview bounds the beginnings of payloads in a list.
	MaxPreview = 1024

	// MaxKeysPage bounds the keys of a page, because the items of each key are counted.
	MaxKeysPage = 100
)

// Bounds of a header block. Headers are bounded because they are read one by one before anything else can be done with
// a message, and because an item keeps its headers wherever it goes.
const (
	MaxHeaderLines = 1000
	MaxHeaderBytes = 64 << 10
)

// ItemBytes is how many bytes an item counts towards its queue's max_bytes besides its payload, headers and overhead.
const ItemBytes = 512
