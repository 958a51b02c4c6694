package protocol

import (
	"errors"
	"strconv"
)

// Config is the configuration of a queue.
//
// It is the only description of these fields: make generate writes what else knows them. The first paragraph of a comment is for
// everybody, with links for docs/protocol/admin.md; the second one is for that page alone.
//
// The marks of pq: since is the version of a queue's state from which on programs keep the field, the first one if it is not given,
// for a new field the one after stateNewest of fdbpq/queuestate.go; label is its name in the console; enum are its words; default is
// its value in a queue without a configuration, if that is not zero; max is the greatest value, maxlen the most bytes, and the
// comment behind the line says why; with min=0 it cannot be negative; zero says what 0 stands for, in errors; names says that it is
// a list of queues; core is its type in the store.
type Config struct {
	// The priority of items pushed without one.
	Priority int64 `json:"priority" pq:"label=Priority"`

	// The lease of pops that ask for none; `0s`: they remove items.
	Lease Duration `json:"lease" pq:"label=Lease; max=12h"` // the items of a crashed worker stay leased for this long

	// The TTL of items pushed without one; `0s`: for ever.
	TTL Duration `json:"ttl" pq:"label=Time to live; max=87600h"` // keeps due times far from overflow

	// After how many [failures](retries.md#what-counts) an item is dead; `0`: never.
	//
	// Not for [dead letters](settle.md#dead-letters).
	MaxDeliveries int64 `json:"max_deliveries" pq:"label=Failures; default=16; min=0"`

	// After how many [interruptions](retries.md#what-counts) an item is dead; `0`: never; empty: as many as `max_deliveries`.
	MaxInterruptions Most `json:"max_interruptions" pq:"label=Interruptions; core=Most"`

	// The queue for dead items; empty: the queue's name with `-dead`.
	//
	// Its `dead_letters_from` has to name this queue.
	DeadLetter string `json:"dead_letter" pq:"label=Dead-letter queue; maxlen=256"` // it fits a key

	// Whether items that outlive their TTL go to the dead-letter queue, too.
	DeadLetterExpired bool `json:"dead_letter_expired" pq:"label=Expired items die"`

	// The queues whose dead letters this one takes, separated by commas; `*`: all.
	//
	// `<queue>-dead` always takes those of `<queue>`.
	DeadLettersFrom string `json:"dead_letters_from" pq:"label=Takes dead letters of; maxlen=4096; names"` // every transaction on the queue reads it

	// How long ids of pushes and pops are remembered.
	DedupWindow Duration `json:"dedup_window" pq:"label=Remembers ids for; default=2m; max=24h"` // every id occupies a row for this long

	// How many ids are remembered; with so many, requests with new ids are refused.
	//
	// They answer 429, and with `0` all do. Requests at the same time may exceed it by what they carry.
	DedupLimit int64 `json:"dedup_limit" pq:"label=Remembers ids up to; default=1000000; min=0; max=10000000"` // every id occupies two rows

	// Which of equal priorities `pop.max` takes.
	Ties string `json:"ties" pq:"label=Pops from the far end take; enum=newest|oldest; default=newest; core=Ties"`

	// How many items the queue may have, in all states; `0`: no limit.
	MaxLength int64 `json:"max_length" pq:"label=Length; min=0"`

	// How many [bytes](#max_bytes) its items may have, with 512 and the overhead of each besides payload and headers; `0`: no limit but that of pqd.
	MaxBytes int64 `json:"max_bytes" pq:"label=Bytes; min=0"`

	// Whether a push to a full queue is refused, or [evicts](#overflow) the least urgent items.
	//
	// A refused one answers 429. Only ready items are evicted.
	Overflow string `json:"overflow" pq:"label=A push to a full queue; enum=refuse|evict; default=refuse; core=Overflow"`

	// How many items of one [key](keys.md) are leased at a time; `0`: no limit.
	KeyLimit int64 `json:"key_limit" pq:"label=Leases of a key; min=0; max=1000; zero=no limit"` // a pop reads this many rows of a key

	// Whether the items of a key are handed out one after another.
	KeyOrder bool `json:"key_order" pq:"label=Keys in order"`

	// Whether keys [take turns](keys.md#turns): `priority`, within each priority; `0,100`, within classes that begin at these; empty: they do not.
	Fair string `json:"fair" pq:"label=Keys take turns; core=Fair"`

	// How many [deliveries](keys.md#rates) the queue allows in a time, such as `100/1m`; empty: no bound.
	//
	// 1 to 1000000, in 1s to 24h.
	Rate string `json:"rate" pq:"label=Rate; core=Rate.String"`

	// How many deliveries each key allows in a time, such as `100/1m`; empty: no bound.
	KeyRate string `json:"key_rate" pq:"label=Rate of a key; core=Rate.String"`

	// How much [cost](cost.md) the queue hands out in a time, such as `1440/1s`; empty: no bound.
	//
	// 1 to 1000000000000, in 1s to 24h.
	CostRate string `json:"cost_rate" pq:"label=Cost rate; since=3; core=CostRate.String"`

	// How much cost each key hands out in a time, such as `1440/1s`; empty: no bound.
	KeyCostRate string `json:"key_cost_rate" pq:"label=Cost rate of a key; since=3; core=CostRate.String"`

	// The queues to which pushes may [hand over](push.md#hand-over) leased items of this one, separated by commas; `*`: all.
	HandOver string `json:"hand_over" pq:"label=Hands over to; maxlen=4096; names"` // every transaction on the queue reads it

	// How long an item that comes back from a lease [stays away](retries.md#backoff): an object whose delays grow, such as
	// `{"delay":"1s"}`, or a list of delays by delivery, such as `["1s","10s"]`; empty: not at all.
	Backoff Backoff `json:"backoff" pq:"label=Backoff; core=Backoff"`

	// How many of its last leases without success an item [remembers](retries.md#attempts); `0`: none.
	Attempts int64 `json:"attempts" pq:"label=Attempts; default=16; max=16; zero=none"` // an item carries them

	// Whether a pop passes over no more urgent item whose push commits while the pop runs, on any store.
	//
	// On the embedded store [no pop does](../protocol.md#order), whatever this says.
	Strict bool `json:"strict" pq:"label=Strict"`

	// How many bytes the results that the queue [keeps](results.md#room) may take, with 320 of each, kept or asked for, besides its body; `0`: 64 MiB.
	//
	// With so many, bodies of results are dropped, and pushes that ask for results answer 429. `PQ_MAX_QUEUE_BYTES` [bounds](#max_bytes) it.
	ResultBytes int64 `json:"result_bytes" pq:"label=Bytes of results; min=0; max=68719476736; zero=64 MiB"` // all of it lies on the disk of a node

	// For how long the queue is empty and [unused](#expire_empty) before it deletes itself; `0s`: it does not.
	//
	// At least `1m`.
	ExpireEmpty Duration `json:"expire_empty" pq:"label=Deletes itself when unused for; since=2; max=720h"` // what was forgotten for a month is not in use
}

// Most is how often something may happen, as JSON: a number, or "" for as often as another setting says.
type Most string

// MarshalJSON implements json.Marshaler.
func (m Most) MarshalJSON() ([]byte, error) {
	if m == "" {
		return []byte(`""`), nil
	}
	return []byte(m), nil
}

// UnmarshalJSON implements json.Unmarshaler.
func (m *Most) UnmarshalJSON(text []byte) error {
	if string(text) == `""` {
		*m = ""
		return nil
	}
	n, err := strconv.ParseUint(string(text), 10, 63)
	if err != nil {
		return errors.New(`expected a number from 0 on, or ""`)
	}
	*m = Most(strconv.FormatUint(n, 10))
	return nil
}

// Field describes a field of a configuration.
type Field struct {
	Name  string   // in JSON
	Doc   string   // what it is, without a period
	Words []string // that it may be; nil: others, too
	Max   string   // the greatest value; "": there is none
}
