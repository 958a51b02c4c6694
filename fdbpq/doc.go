// Package fdbpq keeps durable, double-ended priority queues in a transactional
// key-value store: FoundationDB's priority-queue recipe made fit for
// production. It knows nothing of networks; what it offers are functions that
// work inside a transaction of the caller's, so a program can push or settle
// together with changes of its own data.
//
// # Order
//
// Items are ordered by priority, low first, then by push order, then by a
// random part that tells concurrent pushes apart. Min takes the first in that
// order, Max the last. An item keeps its place for life: also when it was
// delayed, leased and returned, or moved to another priority and back.
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
// queue. Remove takes an item out of any state.
//
// # Guarantees
//
// An item is taken for good by one transaction, and has one valid lease at a
// time, whatever processes, clocks and the store do. A lost lease can do
// nothing; the fence, which grows with every lease of an item, lets a worker
// guard its own writes as well.
//
// An item that is ready when a pop begins is not passed over for a less urgent
// one. Pushes conflict with nothing; pops conflict with each other alone.
//
// Due times are store time, which every process moves forward by its own
// monotonic clock. A wrong wall clock neither steals a lease nor holds one.
//
// What runs in [Session.Update] takes effect exactly once, also when the store
// cannot tell whether a commit succeeded. In a transaction of the caller's own
// that is the caller's business.
package fdbpq
