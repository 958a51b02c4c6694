//go:build !fdb

package testenv

// buildTags are what pqd is built with, so that it has the engines that the
// tests have.
const buildTags = ""

func taggedEngines() []Engine { return nil }
