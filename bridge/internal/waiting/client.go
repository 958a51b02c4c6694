package waiting

import "strings"

// client has the waiting pops of one client at a queue.
type client[T any] struct {
	name string
	pops list[T]
	rank int // its index among the busiest
}

// clientOf names the client to which a reply subject belongs. Client libraries have one inbox a connection, with a
// last token for each request. All clients with an inbox for each request share one name: otherwise each of their
// pops would count as another client.
//
// A client can choose its name. So names decide only between the clients of one queue, not between queues.
func clientOf(reply string) string {
	return reply[:max(0, strings.LastIndexByte(reply, '.'))]
}
