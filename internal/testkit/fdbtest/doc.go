// Package fdbtest starts FoundationDB for tests, where its programs are on the
// PATH. Everything but this page is behind the build tag fdb.
package fdbtest
