// Package fdb is the engine that keeps rows in a FoundationDB cluster: package
// kv's contract on apple's Go bindings, API version 730. Everything but this
// page is behind the build tag fdb, because it needs cgo and, when it is built
// and when it runs, FoundationDB's client library (libfdb_c.so, version 7.3 or
// later). A program that was built with the tag and does not find the library
// does not start; the dynamic linker says which file it misses.
//
// # Guarantees
//
// They are FoundationDB's: transactions are serializable in commit order across
// all processes of the cluster, and what was committed is on the disks of as
// many machines as the cluster's redundancy mode says. On top of it,
//
//   - a commit whose result did not come back is never sent again: it is
//     kv.ErrUnknown, and it is up to the caller to find out;
//   - a transaction ends when its context ends, however the cluster fares: at
//     once before the commit is sent, and a second later when it is under way;
//   - a read depends on exactly what it returned, and on the gaps between.
//
// A transaction whose context does not end waits for the cluster for as long as
// that is away. No time limit of the client library's own is set: it would end
// commits whose result is then unknown.
//
// What differs from other engines: a [kv.Tx.Watch] counts as a read of its key if
// the transaction gives that another value, and a key together with the prefix may
// have 10,000 bytes.
//
// # Options of the client library
//
// The library reads its own environment variables before the first store is
// opened: FDB_TLS_CERTIFICATE_FILE, FDB_TLS_KEY_FILE, FDB_TLS_CA_FILE,
// FDB_TLS_PASSWORD and FDB_TLS_VERIFY_PEERS for clusters that speak TLS, and
// FDB_NETWORK_OPTION_<NAME> for everything else, such as
// FDB_NETWORK_OPTION_TRACE_ENABLE=<dir> for a log, and
// FDB_NETWORK_OPTION_EXTERNAL_CLIENT_DIRECTORY=<dir> for libraries of other
// versions while a cluster is upgraded.
package fdb
