// Package foreign reads the jobs of other systems, as items to import: those of BullMQ and of
// Celery on Redis, and the messages of a JetStream stream.
//
// A source only reads. Each job has a unique value that names it in its system, so a job that is
// imported twice is one item. Jobs come in the order in which their system would hand them out.
package foreign
