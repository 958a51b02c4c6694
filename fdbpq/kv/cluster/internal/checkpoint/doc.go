// Package checkpoint gives a copy of the store from one member to another when the log no longer has the entries that the
// other one lacks.
//
// Guarantees:
//   - A checkpoint is offered only while the log of its generation goes on from it, and fetched only then.
//   - What is on a disk is of one checkpoint of one member at any time: files of two of them have the same names.
//   - A part whose bits have changed on the way is not written. After a failure the files that have arrived stay, and the
//     next call goes on with them.
package checkpoint
