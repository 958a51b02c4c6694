// Package process arranges this process with Go and the operating system: threads, memory, the end after a panic,
// files that no other user can read, a log that repeated lines cannot fill, and parts that stop in reverse order.
package process
