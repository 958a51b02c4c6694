// Package hours has only a test: an hour of a bridge, its workers and those who look at its queues, in virtual time. It is a
// program of its own for the reason that package simulation gives.
package hours
