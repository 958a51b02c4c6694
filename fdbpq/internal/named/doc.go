// Package named is what the definitions of queues that have names share: schedules, links and sources.
//
// It guarantees:
//   - The rows of a definition have the queue's name and the generation at which the queue was made in their keys. So
//     they outlive a purge, and no later queue of the name has them.
//   - A page of definitions is in the order of their names, and begins behind the name that its caller has.
//   - Bounds refuse the link or source too many of a queue, a tenant or the store, so no tenant takes the room of all
//     others. Transactions at the same time may exceed a bound by a few.
package named
