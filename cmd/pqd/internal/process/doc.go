// Package process arranges this process with Go and the operating system: threads, memory, the end after a panic,
// files that no other user can read, and a log that repeated lines cannot fill.
package process
