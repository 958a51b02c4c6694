//go:build fdb

package versions_test

// buildTags are those with which the programs are built.
const buildTags = "fdb"
