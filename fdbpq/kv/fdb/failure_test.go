//go:build fdb

package fdb

import (
	"testing"

	apple "github.com/apple/foundationdb/bindings/go/src/fdb"
)

// TestJudge holds the meaning of error codes to what FoundationDB's pages say.
func TestJudge(t *testing.T) {
	if err := apple.APIVersion(apiVersion); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		code           int
		name           string
		read, atCommit verdict
	}{
		{1007, "transaction_too_old", again, again},
		{1009, "future_version", again, again},
		{1020, "not_committed", again, again},
		{1037, "process_behind", again, again},
		{1038, "database_locked", again, again},
		{1042, "commit_proxy_memory_limit_exceeded", again, again},
		{1051, "batch_transaction_throttled", again, again},
		{1078, "grv_proxy_memory_limit_exceeded", again, again},
		{1213, "tag_throttled", again, again},
		{1039, "cluster_version_changed", again, unknown},

		{1021, "commit_unknown_result", hopeless, unknown},
		{1025, "transaction_cancelled", hopeless, unknown},
		{1031, "transaction_timed_out", hopeless, unknown},
		{1101, "operation_cancelled", hopeless, unknown},
		{1100, "broken_promise", hopeless, unknown},
		{1500, "platform_error", hopeless, unknown},
		{4000, "unknown_error", hopeless, unknown},
		{4100, "internal_error", hopeless, unknown},
		{9999, "a code that nobody has heard of", hopeless, unknown},

		{2004, "key_outside_legal_range", hopeless, hopeless},
		{2005, "inverted_range", hopeless, hopeless},
		{2017, "used_during_commit", hopeless, hopeless},
		{2101, "transaction_too_large", tooLarge, tooLarge},
		{2102, "key_too_large", tooLarge, tooLarge},
		{2103, "value_too_large", tooLarge, tooLarge},
	}
	for _, test := range tests {
		if got := judge(test.code, reading); got != test.read {
			t.Errorf("%s (%d) of a read: verdict %v, expected %v", test.name, test.code, got, test.read)
		}
		if got := judge(test.code, committing); got != test.atCommit {
			t.Errorf("%s (%d) of a commit: verdict %v, expected %v", test.name, test.code, got, test.atCommit)
		}
	}
}

// TestNothingUnknownIsRerun: whatever code a commit may ever end with, it is
// sent again only when the library is certain.
func TestNothingUnknownIsRerun(t *testing.T) {
	for code := range 10_000 {
		if judge(code, committing) == again && !certainlyNotCommitted(code) {
			t.Errorf("a commit that ended with code %d is run again", code)
		}
	}
}
