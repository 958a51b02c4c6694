package doctor

import (
	"context"
	"time"

	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/cmd/pq/internal/show"
	"github.com/pqbridge/pqbridge/protocol"
)

const (
	sourceStands kind = "have sources that stand"
	sourceLags   kind = "have sources that fall behind"

	mostAsked  = 1000            // queues whose sources are asked for: a store has no more sources
	lagging    = 1000            // messages from which doctor looks whether a source falls behind
	mostLooks  = 10              // sources that it looks at for that
	sourceSpan = 5 * time.Second // between the looks: a bridge says every two seconds how far a stream is
)

// sources are the sources of queues, and how they do.
type sources struct {
	*doctor
	asked  int
	behind []feed
}

// feed is a source of a queue.
type feed struct {
	queue string
	client.Source
}

// examine looks at the sources of queues. It asks no more after an error.
func (s *sources) examine(infos []*client.Info, remark func(k kind, format string, args ...any)) {
	for _, i := range infos {
		if s.asked >= mostAsked {
			return
		}
		found, ok := s.of(i.Queue)
		if !ok {
			s.asked = mostAsked
			return
		}
		s.asked++
		for _, one := range found {
			examineSource(i.Queue, &one, remark)
			if one.State == protocol.SourceRunning && one.Stream != "" && one.Lag >= lagging && len(s.behind) < mostLooks {
				s.behind = append(s.behind, feed{i.Queue, one})
			}
		}
	}
}

// of returns the sources of a queue.
func (s *sources) of(queue string) (found []client.Source, ok bool) {
	permitted, err := s.try(func(ctx context.Context) error {
		for one, err := range s.client.Queue(queue).Sources(ctx, "") {
			if err != nil {
				return err
			}
			found = append(found, one)
		}
		return nil
	})
	switch {
	case !permitted:
		s.note(fine, "sources", "not known: this user may not see them")
	case err != nil:
		s.note(warn, "sources", "those of %s are not known: %v", queue, err)
	}
	return found, permitted && err == nil
}

// again looks at those that were behind once more.
func (s *sources) again(remark func(k kind, format string, args ...any)) {
	if len(s.behind) == 0 {
		return
	}
	select {
	case <-time.After(s.sourceSpan):
	case <-s.session.Context.Done():
		return
	}
	for _, was := range s.behind {
		found, ok := s.of(was.queue)
		if !ok {
			return
		}
		for _, now := range found {
			if now.Name == was.Name && now.Lag > was.Lag {
				remark(sourceLags, "%s: source %s is %s behind stream %s, and falls back further: is pqd overloaded? What the stream's limits drop is lost",
					was.queue, was.Name, show.Many(int64(now.Lag), "message"), now.Stream)
			}
		}
	}
}

func examineSource(queue string, s *client.Source, remark func(k kind, format string, args ...any)) {
	ways := show.SourceWays(queue, s)
	switch s.State {
	case protocol.SourceStopped:
		remark(sourceStands, `%s: source %s has stopped, %s: "%s" says how it goes on`, queue, s.Name, s.Reason, show.Command("source show", []string{queue, s.Name}))
	case protocol.SourcePaused:
		remark(sourceStands, `%s: source %s is paused: "%s" ends that`, queue, s.Name, ways[0])
	case protocol.SourceBlocked, protocol.SourceFailing:
		remark(sourceStands, "%s: source %s is %s, %s: %s", queue, s.Name, s.State, s.Reason, ways[0])
	case protocol.SourceNoRunner:
		remark(sourceStands, "%s: no pqd runs source %s: %s", queue, s.Name, ways[0])
	}
}

const (
	linkHolds kind = "have links whose takers do not come"

	// heldLong is how long a batch is out that a taker would have confirmed.
	heldLong = 10 * time.Minute
)

// links are the links of queues, and how they do.
type links struct {
	*doctor
	asked int
}

// examine looks at the links of queues that have held items. It asks no more after an error.
func (l *links) examine(infos []*client.Info, remark func(k kind, format string, args ...any)) {
	for _, i := range infos {
		if i.Held == 0 {
			continue
		}
		if l.asked >= mostAsked {
			return
		}
		permitted, err := l.try(func(ctx context.Context) error {
			for one, err := range l.client.Queue(i.Queue).Links(ctx, "") {
				if err != nil {
					return err
				}
				examineLink(i.Queue, &one, time.Now(), remark)
			}
			return nil
		})
		if l.asked++; permitted && err == nil {
			continue
		}
		if l.asked = mostAsked; permitted {
			l.note(warn, "links", "those of %s are not known: %v", i.Queue, err)
		} else {
			l.note(fine, "links", "not known: this user may not see them")
		}
	}
}

func examineLink(queue string, l *client.Link, now time.Time, remark func(k kind, format string, args ...any)) {
	if out := now.Sub(l.Since); l.Held > 0 && out > heldLong {
		remark(linkHolds, "%s: link %s holds %d items for %s: the store %s has not confirmed them", queue, l.Name, l.Held, out.Round(time.Second), l.To)
	}
}
