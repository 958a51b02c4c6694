package waiting

import "strings"

// client is what one client has waiting at a queue.
type client[T any] struct {
	name string
	pops list[T]
	rank int // its index among the busiest
}

// clientOf names the client that a reply subject belongs to. Client libraries
// have one inbox a connection, with a last token for each request. One that makes
// an inbox for each request shares its name with all that do: told apart, they would
// be many clients with a pop each, and none of them too busy.
//
// A client can choose its name. So names settle who of the clients of one queue
// waits, and not which queue has how many places.
func clientOf(reply string) string {
	return reply[:max(0, strings.LastIndexByte(reply, '.'))]
}
