// Package jetstream is a replicated log in a JetStream stream, and the messages of
// members on NATS subjects beside it.
//
// Guarantees:
//   - Each append names the entry that it follows and the stream that it means, so an
//     append to a stream of another name does nothing.
//   - An append that a server refuses may be in the log nevertheless: a deposed leader of
//     the stream can answer beside the one that follows it, and a refusal may rest on an
//     entry that never commits. So Append returns [cluster.ErrMoved] only when it has
//     read another entry in the place that the append was for.
//   - A stream that could lose or change entries by its configuration is refused.
//
// How durable an entry is depends on the servers. The servers of a stream with three
// replicas acknowledge what two of them have written. With sync_interval: always they
// have also synced it. By default they sync every two minutes: then an entry survives
// the loss of a server, but not a power failure of all of them.
package jetstream
