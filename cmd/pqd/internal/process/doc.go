// Package process is what pqd asks of Go and of the operating system: threads, memory, the end after a
// panic, files that no other user can read, and a log that repeated lines cannot fill.
package process
