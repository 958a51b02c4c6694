// Package takeover decides who becomes active: when a member has to try, whose turn it is, who objects, and who follows
// an active member that steps down. It decides of what a member knows: it asks nobody, keeps no lock and reads no clock.
//
// Guarantees:
//   - A member whose copy is ahead of the log, or differs from it, objects to each takeover. The furthest entry that any
//     member was heard to have objects, too.
//   - Disks that went back, or may have, object until a majority of members with sound disks runs.
//   - A log that ends too early counts as a loss only once that has lasted: a server that lags shows such a log, too.
//   - To try too early costs a candidacy, never safety: only the log decides who may write.
package takeover
