// Package clustertest tests the log and the messages on which the replicated engine rests, and replaces them in
// tests of the engine: RunLog and RunMembers test a log and the messages of members against their contracts, Log
// and Network keep both in memory.
package clustertest
