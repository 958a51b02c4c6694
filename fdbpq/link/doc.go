// Package link gives the items of a queue to a queue of another store, the taker, in batches.
//
// A link belongs to a queue. One row has its definition, another row its last batch. One batch is out at a time. Its items
// are held, see [fdbpq.Queue.Hold], until the taker asks for the next batch, and by that says that it has committed them.
//
// # Guarantees
//
//   - Until the taker confirms a batch, the giver keeps its items. After that only the taker has them, unless the link is
//     deleted with force.
//   - Both sides keep the number and the random id of the last batch, in the transaction that moves its items. So the giver
//     answers a batch again whose answer was lost, and each side notices when the other one has lost its end.
//   - Only its link ends a held item, or a purge or delete of the queue. After a purge the batch counts as empty.
//   - An item that the taker can take neither as an item nor as a dead letter stays here, as a dead letter or at its place.
//
// The rows of a link end with the queue. A source of package fdbpq/source takes the items that a link gives.
package link
