// Package source has queues take messages of streams, and items of queues of other stores.
//
// A source belongs to a queue, and feeds it. One row has its definition, one its position,
// and one who runs it. The rows end with the queue. This package speaks with no stream: its caller
// fetches messages, and says what it has found.
//
// # Guarantees
//
//   - A message becomes one item, whatever processes and streams do: the transaction that pushes it depends
//     on the position at which the caller fetched, and moves that on. Who comes from another position has
//     pushed nothing. A person may say where to go on, and have messages pushed again.
//   - No message is lost in silence. One that no push takes becomes a dead letter, or stops the source.
//     Messages that the stream has lost are counted.
//   - Messages become items in their order. Where the queue takes no more, the source goes on with the
//     first that it did not take.
//   - A source that meets another stream than it has read waits for a person, if its caller says so with a
//     [Stop].
//   - One process runs a source at a time, and says so again within [Term]. Only work depends on that: two
//     processes that run one push each message once.
//
// [New] makes the [Sources] of a store. They have no state of their own.
package source
