// Package settles has the requests that settle leases: acknowledgements and all other messages on ack subjects, alone and in
// bundles.
//
// What it guarantees: the settlements of a lease take effect in the order in which they arrive, those of a bundle in the order of
// its lines. A settlement of a bundle takes effect as if it had come alone, and the bundle is answered after the last of them. A
// settlement of a lost lease is answered so, and the others of its transaction take effect. An item that did not reach its consumer
// goes back to its queue, also under overload.
//
// The bridge decides in which turns a settlement takes effect, see its joinsPops.
package settles
