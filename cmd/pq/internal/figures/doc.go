// Package figures is what pq shows about queues: it asks for many at once, adds dead letters, sorts, and sets columns.
package figures
