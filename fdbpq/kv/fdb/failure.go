//go:build fdb

package fdb

// #cgo LDFLAGS: -lfdb_c
// #define FDB_API_VERSION 730
// #include <foundationdb/fdb_c.h>
import "C"

import (
	"errors"
	"fmt"

	apple "github.com/apple/foundationdb/bindings/go/src/fdb"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// Error codes that matter by themselves.
const (
	codeNotCommitted          = 1020 // lost to another transaction
	codeTransactionCancelled  = 1025
	codeTooManyWatches        = 1032
	codeClusterVersionChanged = 1039
	codeTransactionTooLarge   = 2101
	codeKeyTooLarge           = 2102
	codeValueTooLarge         = 2103
	codeInternal              = 4100
)

// stage is the stage of a transaction in which it failed.
type stage int

const (
	reading    stage = iota // up to its commit, which was not sent
	committing              // its commit may have been sent
)

// verdict is the meaning of a failure for a transaction.
type verdict int

const (
	again    verdict = iota // certainly not committed; another run may succeed
	hopeless                // certainly not committed; another run would fail, too
	tooLarge                // hopeless because of a limit
	unknown                 // may have been committed, or may yet be
)

// judge returns the meaning of an error code. After a failed commit, a transaction counts as not committed only if
// the library promises that for the code. So transaction_timed_out (1031), transaction_cancelled (1025),
// operation_cancelled (1101) and others are unknown, like commit_unknown_result (1021) and cluster_version_changed
// (1039).
func judge(code int, at stage) verdict {
	switch {
	case code == codeTransactionTooLarge || code == codeKeyTooLarge || code == codeValueTooLarge:
		return tooLarge
	case certainlyNotCommitted(code):
		return again
	case at == committing && !refusedByClient(code):
		return unknown
	case at == reading && code == codeClusterVersionChanged:
		return again // the library switched to its version for the cluster
	}
	return hopeless
}

// certainlyNotCommitted asks the library, because the codes depend on its version.
func certainlyNotCommitted(code int) bool {
	return C.fdb_error_predicate(C.int(apple.ErrorPredicateRetryableNotCommitted), C.fdb_error_t(code)) != 0
}

// refusedByClient reports whether a code reports a wrong use of the library, which it
// detects before it sends anything.
func refusedByClient(code int) bool { return 2000 <= code && code < 2200 }

// code returns the error code of the bindings' error.
func code(err error) int {
	var e apple.Error
	if errors.As(err, &e) {
		return e.Code
	}
	return codeInternal
}

func unavailable(err error) error { return fmt.Errorf("%w: %w", kv.ErrUnavailable, err) }
