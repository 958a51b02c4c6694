// Package desk is where requests meet the store. It has the parts that every kind of work on queues needs: [Lane] is one
// queue's access to the store, [Turns] serve many queues in one transaction, [Changes] are a queue's part in turns of changes,
// and [Keeper] knows whether the store commits.
//
// What it guarantees: a transaction takes effect once at most. Its requests are answered after the commit, or refused; if the
// result stays unknown, the answer says so. A request that waits behind a transaction that does not end is refused in time for
// its client. New items are added only where the store and the tenant
// have room. A tenant pays for the rows that its requests read and write.
//
// The desk names no kind of work. Kinds are packages above it, and the bridge has the table of them.
package desk
