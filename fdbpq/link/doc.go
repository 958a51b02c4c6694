// Package link gives the items of a queue to a queue of another store, the taker, in batches.
//
// A link belongs to a queue. What it is lies in one row, its last batch in another one. One batch is out at a time. Its items
// are held, see [fdbpq.Queue.Hold], until the taker asks for the next batch, and by that says that it has committed them.
//
// # Guarantees
//
//   - An item is in one store alone once the taker has confirmed its batch, and until then in the giver's.
//   - Both sides keep the number and the random id of the last batch, in the transaction that moves its items. So the giver
//     answers a batch again whose answer was lost, and each side notices when the other one has lost its end.
//   - Nobody but its link ends a held item. A purge does, and the batch then counts as empty.
//   - An item that the taker can take neither as an item nor as a dead letter stays here, as a dead letter or at its place.
//
// The rows of a link end with the queue. A source of package fdbpq takes what a link gives.
package link
