package fdbpq

import (
	"slices"
	"strings"
)

// A queue may belong to a tenant: its name is then that of the tenant, a dot, and its own. A configuration
// or a dead letter names another queue by its own name, and means a queue of the same tenant.

// tenantOf returns the tenant of a queue, "" for a queue without a tenant.
func tenantOf(queue string) string { return queue[:max(0, strings.LastIndexByte(queue, '.'))] }

// ownName returns the name of a queue without its tenant.
func ownName(queue string) string { return queue[strings.LastIndexByte(queue, '.')+1:] }

// sameTenant returns the name of the queue that the tenant of a queue calls own.
func sameTenant(queue, own string) string { return queue[:len(queue)-len(ownName(queue))] + own }

// CountsWith returns the queue with which a queue counts as one queue of its tenant: its default dead-letter queue, or the
// queue whose dead letters it has. It returns "" for a queue that counts alone. So dead letters never make a queue too many.
func CountsWith(queue string) string {
	home, dead := strings.CutSuffix(queue, DeadLetterSuffix)
	switch {
	case !dead:
		return queue + DeadLetterSuffix
	case strings.HasSuffix(home, DeadLetterSuffix):
		return ""
	}
	return home
}

// defaultDeadLetters is the name of the queue's default dead-letter queue, "" if it would
// be too long to be asked for.
func defaultDeadLetters(queue string) string {
	if len(ownName(queue))+len(DeadLetterSuffix) > MaxDeadLetterName {
		return ""
	}
	return queue + DeadLetterSuffix
}

// DeadLetterSuffix ends the name of a queue's default dead-letter queue.
const DeadLetterSuffix = "-dead"

// MaxDeadLetterName bounds the bytes of that name. An item that went to a queue with a
// longer one could not be reached.
const MaxDeadLetterName = 69

// listed reports whether a list of queues, separated by commas, names a queue. "*" names
// all.
func listed(names, queue string) bool {
	return names == "*" || slices.Contains(strings.Split(names, ","), queue)
}

// areNames reports whether a text is a list of queues, or "*", or empty.
func areNames(text string) bool { return text == "" || !slices.Contains(strings.Split(text, ","), "") }
