//go:build !fdb

package versions_test

const buildTags = ""
