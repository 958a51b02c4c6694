// Package commands has the commands of pqd that serve nothing: backup, restore, check, recover, salvage and probe.
//
// Guarantees:
//   - Check changes no file of a store. Restore and salvage write beside what is there: nothing is overwritten.
//   - A store that a process has open is not opened again. Backup and recover ask that process, through a socket beside
//     the store that only its user may use ([StartControl]).
//   - Recover describes the loss and begins nothing without consent.
package commands
