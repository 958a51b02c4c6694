// Package schedule has queues push items at the times of a calendar.
//
// A schedule belongs to a queue, and pushes its item to it at each time. What it is lies in one row, how far it is in
// another one, which each firing writes. Its only index row stands at the schedule time at which there is something to
// do. The rows end with the queue.
//
// # Guarantees
//
//   - A time fires once, whatever processes and clocks do: the transaction that pushes for it depends on how far the
//     schedule was, and moves that on.
//   - A time that does not fire is counted, and reported with its reason. None is lost in silence.
//   - All processes agree on schedule time. One of them fires at a time, and another takes over when it dies.
//   - While more schedules are due than fit into one transaction, queues and their owners take turns.
//
// A process makes one [Schedules] for a store with [New], and runs it beside [fdbpq.Store.Maintain]. Without a process
// that runs it, schedules wait, and Maintain reports that.
package schedule
