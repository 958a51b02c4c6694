package chain

import "errors"

// ErrDamaged: a record, or a part of a message, has changed since it was written.
var ErrDamaged = errors.New("its content is not what was written")

// ErrBehind: the log no longer has the entries that this copy lacks.
var ErrBehind = errors.New("the log no longer has what this copy lacks")

// ErrDiffers: the entry belongs to another log than the copy.
var ErrDiffers = errors.New("copy and log differ")

// Export tells an operator how to go on with a store of before the first release.
const Export = `Export its queues with the pqd that wrote it (pq export), and import them into a new store (pq import)`

// Advice tells an operator what to do about a log that has lost entries.
const Advice = `if this does not pass by itself, run "pqd recover" beside this pqd: it says what is lost before it does anything`
