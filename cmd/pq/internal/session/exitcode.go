package session

import (
	"errors"
	"fmt"
	"io/fs"
	"net"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/client"
)

// Exit codes, as help lists them.
const (
	ExitOK          = 0
	ExitFailed      = 1
	exitUsage       = 2
	ExitNothing     = 3
	ExitUnavailable = 4
	ExitIncomplete  = 5
	ExitInterrupted = 130 // as shells report Ctrl-C
)

// badRequest is the code of answers to malformed requests.
const badRequest = 400

// ExitError ends the program with a code and without a message.
type ExitError int

func (e ExitError) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

// exitCode returns the exit code for an error.
func exitCode(err error) int {
	var answer *client.Error
	switch {
	case errors.As(err, new(*UsageError)), errors.As(err, &answer) && answer.Code == badRequest:
		return exitUsage
	case errors.Is(err, client.ErrEmpty), errors.Is(err, client.ErrNotFound), answer != nil && noResult(answer.Reason):
		return ExitNothing
	case errors.Is(err, client.ErrUnavailable), errors.Is(err, client.ErrBusy), errors.Is(err, nats.ErrNoServers),
		errors.Is(err, nats.ErrConnectionClosed), errors.Is(err, nats.ErrTimeout), unreachable(err):
		return ExitUnavailable
	}
	return ExitFailed
}

// noResult reports whether an item has not ended: there is no result of it yet, or will be none.
func noResult(r client.Reason) bool { return r == client.ReasonPending || r == client.ReasonUnkept }

// unreachable reports whether the server is away or does not answer. A refused login and an
// unreadable file of the login are other errors.
func unreachable(err error) bool {
	var network net.Error
	return errors.As(err, new(*connectError)) && errors.As(err, &network) && !errors.As(err, new(*fs.PathError))
}
