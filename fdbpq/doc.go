// Package fdbpq keeps durable, double-ended priority queues in a transactional
// key-value store. It extends FoundationDB's priority-queue recipe. It knows no
// network: its functions run inside a transaction of the caller, so a program can
// push or settle together with changes of its own data.
//
// # Order
//
// Items are ordered by priority, low first, then by push order, then by a
// random part that tells concurrent pushes apart. Min is the first item in that
// order, Max the last. An item keeps its place for life: a delay, a lease that
// ends, and a move to another priority and back do not change it.
//
// # States
//
//	push, delayed                    push
//	      │                           │
//	      ▼        due                ▼        Pop
//	   delayed ───────────────────► ready ───────────────► gone
//	      ▲                         │   ▲                    ▲
//	      │ Nack with a delay       │   │ Nack, Return,      │
//	      │                   Lease │   │ lease ran out      │ Ack
//	      │                         ▼   │                    │
//	      └─────────────────────── leased ───────────────────┘
//	                                  │
//	                                  │ Terminate, or back after the
//	                                  ▼ last delivery allowed
//	                          dead-letter queue
//
// A ready or delayed item past its TTL is dropped or goes to the dead-letter
// queue. Remove removes an item in any state. Hold leases without an end, for a program
// that hands items to another store: nobody but the holder, or a purge, ends that.
//
// # Guarantees
//
//   - No item is delivered to two consumers at once. One transaction pops an item,
//     and an item has at most one valid lease, whatever processes, clocks and the
//     store do.
//   - A lost lease settles nothing. The fence grows with each lease of an item, so
//     that a worker can guard its own writes, too.
//   - An item that is ready when a pop begins is not passed over for a less urgent
//     one.
//   - Pushes conflict with nothing. Pops conflict only with each other.
//   - Due times are store time, which every process moves forward by its own
//     monotonic clock. A wrong wall clock neither ends leases early nor extends them.
//   - A transaction run by [Session.Update] takes effect exactly once, even when the
//     store cannot tell whether a commit succeeded. The caller of a transaction of
//     its own has to see to that itself.
package fdbpq
