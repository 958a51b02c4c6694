// Package recovery plans the end of a log that has lost entries: whether a recovery is needed, from which copy the store
// goes on, and what is lost by that. It decides of a survey of members and log, and does nothing.
//
// Guarantees:
//   - While a member serves the store, or all entries that members know of are in the log, there is nothing to recover.
//   - A copy is given up only if it is behind the one with which the store goes on, or if an operator names it.
//   - What exists, or may exist, and is not in that copy, is named before anything is done.
package recovery
