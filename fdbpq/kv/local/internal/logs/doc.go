// Package logs is the file system beneath a store of Pebble: it writes logs, and finds damage in them.
//
// It guarantees:
//   - A log, or a manifest, that cannot be read to where it was synced is damage, which [Disk.Check] or the opening of the
//     file reports with its name. Neither marks nor content of items that look like marks hide it.
//   - A log that is missing is damage, unless a newer log or manifest proves that its rows are in tables.
//   - Bytes that were never synced are no damage: a power loss may have taken them.
//   - Who reads a log that is being written reads up to where it was written at the opening, and nothing of an older log.
//   - A log that cannot be written, synced or closed is reported before Pebble learns of it.
//   - A disk without syncs syncs a log when it is closed, before the next one begins.
package logs
