// Package settles has the requests that settle leases: acknowledgements and all other messages on ack subjects, alone and in
// bundles.
//
// What it guarantees: the settlements of a lease take effect in the order in which they arrive, those of a bundle in the order of
// its lines. A settlement of a bundle takes effect as if it had come alone, and the bundle is answered behind the last of them. A
// lost lease is an answer. An item that did not reach its consumer goes back to its queue, also under overload.
package settles
