// Package history judges what clients saw of one queue. Clients record each
// operation with the moments of its call and of its answer, on one clock of
// their own, which no store can influence; the judge says which promises of the
// protocol the answers break.
//
// [Judge] reads long histories, in time that grows little faster than their
// length. It reports what no order of the operations can explain: an
// acknowledged item that never came out, an item that came out twice, two
// leases of one item at the same time, a lease that ended before its time, a pop
// that passed over an item that was ready all the while. It keeps silent where
// the moments of two operations overlap and either order would do.
//
// [Linearizable] reads short histories and reports everything that no order of
// the operations can explain: it searches for one that makes a plain sequential
// queue give the same answers.
package history
