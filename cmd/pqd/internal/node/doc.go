// Package node is a pqd that keeps a store together with others: its copy of the store, and its bridge while it is active.
//
// Guarantees:
//   - It takes requests only in a term, which package cluster gives to one node at a time. It hands a term over when it stops: the
//     requests under way get answers, and the next node serves before this one ends.
//   - While a disk of the store, or the log, is nearly full, it refuses new items, and serves what makes room.
//   - A node whose copy is damaged hands over once, and one that the others refuse sends its clients away. Neither is ready.
//   - A failed write to the disk of the copy ends the process at once ([store.GiveUp]). A failed disk of the log ends the node
//     in order ([Node.Failed]).
//
// Files have the names of what they hold: [Node] joins the parts, and none of them knows it.
package node
