// Package pops has the requests that take items, or look at them: pops, peeks, and the pops of a +NXT, which acknowledge first. Pops
// that find nothing may wait in a [Waits]. A [Giver] serves its requests in a way of its own. Settlements that the bridge sends to the
// turns of pops take effect in the same transactions, before the pops.
//
// What it guarantees: the pops of a band are served in the order in which they arrive, waiting ones first. A pop that waits is
// answered once, before its time is up, unless its client has gone. It waits also at a queue that does not exist, or was deleted. A
// pop without a lease takes no item for a client that has gone, as far as the server knows of it, and an item under lease that did
// not reach its client goes back at once. A repeated pop gets the items of its first attempt, or a final answer that there are
// none. A pop for which an item does not fit into an answer leaves the item in the queue.
package pops
