// Package history checks the answers that clients got from one queue. Clients record
// each operation with the times of its call and of its answer, on one clock that the
// store cannot influence. The checks report the promises of the protocol that the
// answers break.
//
// [Judge] checks long histories, in time that grows little faster than their length.
// It reports answers that no order of the operations can explain: an acknowledged
// item that was never delivered, an item that was delivered twice, two
// leases of one item at the same time, a lease that ended before its time, a pop
// that passed over an item that was ready all the time. It reports nothing where two
// operations overlap and one of their orders explains the answers.
//
// A bundle is recorded as its operations. Of its pushes all take place, or none, and those
// without an answer took place if one of their items was seen. Its pops happen at one moment.
//
// Of a queue that was configured for keys it also reports more leases of a key than there
// may be, items of a key in disorder, fences of keys that do not grow, and reasons that
// cannot be right.
//
// [Linearizable] checks short histories completely: it searches for an order of the
// operations in which a sequential queue gives the same answers.
package history
