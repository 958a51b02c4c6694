package cluster

import "context"

// Members carries messages between the members of a cluster. A message may get lost,
// come late, twice, or in another order: nothing but liveness depends on it.
type Members interface {
	// Listen registers the receiver of messages: hear gets messages that others broadcast, answer the requests to the
	// member of this name. The functions may be called from any goroutine, and must return soon. stop ends it, and
	// waits for calls under way.
	Listen(name string, hear func(message []byte), answer func(request []byte) (reply []byte)) (stop func(), err error)

	// Broadcast sends a message to all other members, and does not wait until it is
	// delivered. The sender may hear it as well.
	Broadcast(message []byte) error

	// Ask sends a request to one member and returns its reply.
	Ask(ctx context.Context, member string, request []byte) (reply []byte, err error)

	// MaxMessage is how many bytes a message, a request or a reply may have.
	MaxMessage() int
}
