// Package cluster is the replicated engine: several processes, the members, keep one
// store in a replicated log that exists already, such as a JetStream stream. It has no
// consensus of its own.
//
// One member at a time is active. It runs transactions, and writes all that gathered
// while the entry before was under way as the next entry of the [Log]. The others
// follow: they read the log and keep a copy of the store, so that one of them can become
// active at once. A program takes part in this with [DB.Term]: it opens its store anew in
// each term, and forgets it when the term is over.
//
// Guarantees:
//   - A transaction that returned is in the log. It survives whatever the log survives,
//     not more.
//   - Transactions of all members are serializable in the order of the log, and no read
//     is stale: it is answered after an append that began behind it.
//   - ErrUnavailable means that nothing was written, and never will be. ErrUnknown is
//     returned when the context ends before the log has confirmed a commit, or when its
//     place in the log was purged.
//   - No clock and no lease decides who may write. An append names the entry before it,
//     so of two members that take themselves for active one fails.
//   - A member whose copy is ahead of the log, or differs from it, proves that the log
//     has lost what was acknowledged. It objects to each takeover, and no member becomes
//     active while one objects. The furthest entry that any member was heard to have
//     objects, too.
//   - After [DB.Recover] the log of the old generation takes no entry any more, so
//     nothing is acknowledged there. All members go over to the new one.
//   - A member stops, and serves nothing, when the log belongs to another store, was
//     deleted and made again, or has a record that it cannot read.
package cluster
