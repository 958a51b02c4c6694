// Package clustertest tests what the replicated engine rests on, and stands in for it
// in tests of the engine: RunLog and RunMembers test a log and the messages of members
// against their contracts, Log and Network keep both in memory.
package clustertest
