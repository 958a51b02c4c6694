package session

import (
	"errors"
	"strings"
	"time"

	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/cmd/pq/internal/show"
)

// clusterFor is how long pq asks at most behind a request that was answered, or waited for an answer: the user has waited already.
const clusterFor = time.Second

// Cluster is what the pqd say that keep a store together, for a request that none of them has served. It is nil if there are not
// several, or this user may not ask them: neither is an error of the request.
func (s *Session) Cluster() *client.Cluster { return s.cluster(s.Global.Timeout) }

func (s *Session) cluster(limit time.Duration) *client.Cluster {
	if s.NC == nil {
		return nil
	}
	asks, err := s.Connect(client.Timeout(limit))
	if err != nil {
		return nil
	}
	c, err := asks.Cluster(s.Context) // a permission error ends it at once, as it ends the session
	if err != nil || len(c.Members) == 0 {
		return nil
	}
	return show.WithoutEnded(c)
}

// told is an error whose text says already what the cluster says.
type told struct{ error }

// Told makes err such an error.
func Told(err error) error { return told{err} }

func (t told) Unwrap() error { return t.error }

// clusterHint says what the pqd of a cluster have to do with an error, if it is theirs that nobody serves requests: as long as most of
// them are away, none does.
func (s *Session) clusterHint(err error) string {
	limit := s.Global.Timeout
	switch {
	case errors.As(err, new(told)):
		return ""
	case errors.Is(err, client.ErrUnavailable):
	case errors.Is(err, client.ErrUnknownResult), errors.Is(err, client.ErrBusy):
		limit = min(limit, clusterFor)
	default:
		return ""
	}
	c := s.cluster(limit)
	if c == nil {
		return ""
	}
	why := show.Unserved(c)
	if why == "" {
		return ""
	}
	return strings.ToUpper(why[:1]) + why[1:] + `. "pq cluster status" shows them.`
}
