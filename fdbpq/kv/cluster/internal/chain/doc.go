// Package chain is the format of the log: the records, and the rule by which each of them follows the one before.
//
// Guarantees:
//   - A record has the hash of the entry before it, so a copy of the log is a part of the chain, or it is not.
//   - A record whose bits have changed is not read. A record of a later version is refused, and the refusal says so.
//   - Within an epoch only the process that began it writes, and nothing follows its release.
//   - A copy goes over to a generation only if that begins with just this copy.
//
// It reads no clock, keeps no state and knows no network.
package chain
