// Package pushes has the requests that add items to a queue: pushes, their bundles, and imports of exported items.
//
// What it guarantees: a push is acknowledged when it is durable. The pushes that one connection sends to one queue without waiting
// for their answers take effect in the order in which they arrive. A bundle adds all of its items or none, or, with PQ-Each, each of
// them as if it had come alone. A push that may be repeated, or replace another item, is tried although the store has no room for
// new items. An import of an item that the queue has already, with this id, changes nothing, and succeeds.
package pushes
