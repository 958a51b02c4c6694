// Package deadletters finds the dead letters of a queue, which may be in several queues, and puts them back.
package deadletters
