// Package reads has the requests that change nothing: info, get, list, keys, definitions, and what a bridge says of itself.
//
// What it guarantees: a query sees no earlier state of the store than the queries of its queue before it. A query that has
// waited for 4 s is refused, and so is a new query while the first in line has waited for 2 s.
// Each answer fits into a message of the server.
//
// A [Query] finds its answer in a [View], and sends it when the view has ended. To add a query, add its file, and its row to the
// bridge's table of verbs.
package reads
