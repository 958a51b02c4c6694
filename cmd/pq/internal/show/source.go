package show

import (
	"fmt"
	"strings"

	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/protocol"
)

// SourceWays says how a source that stands goes on, one way a line. A source that runs needs none.
func SourceWays(queue string, s *client.Source) []string {
	resume := func(options ...string) string { return Command("source resume", []string{queue, s.Name}, options...) }
	switch s.State {
	case protocol.SourcePaused:
		return []string{resume()}
	case protocol.SourceBlocked:
		return []string{"make room: it tries again by itself"}
	case protocol.SourceFailing:
		return []string{"mend what the reason says: it tries again by itself"}
	case protocol.SourceNoRunner:
		if s.Link != "" {
			return []string{fmt.Sprintf("let a running pqd have remote %s, its queue %s and queue %s in PQ_REMOTES", s.Remote, s.Queue, queue)}
		}
		return []string{fmt.Sprintf("let a running pqd have remote %s, stream %s and queue %s in PQ_REMOTES", s.Remote, s.Stream, queue)}
	case protocol.SourceStopped:
	default:
		return nil
	}
	stop, _, _ := strings.Cut(s.Reason, ":")
	grown := "with what is younger than the last message that was read"
	if s.Mode == protocol.SourceTakes {
		grown = "from the first message that the stream has; what was restored with it comes again"
	}
	ways := []string{resume("--accept") + "   # " + map[string]string{
		protocol.StopReplaced: "from the first message of the new stream",
		protocol.StopBehind:   grown,
		protocol.StopDiverged: grown,
		protocol.StopConsumer: grown,

		protocol.StopGiverBehind:   "with the batch that is out there; what it gave since its backup comes again",
		protocol.StopTakerBehind:   "with the batch that is out there; what was taken since the backup is lost here",
		protocol.StopGiverReplaced: "with the store that answers now",
	}[stop]}
	if stop == protocol.StopPoisoned {
		passed := "pass over this message"
		if s.Link != "" {
			passed = "leave this item to the other side, as a dead letter"
		}
		ways[0] = resume("--skip") + "   # " + passed
	}
	if s.Mode == protocol.SourceCopies {
		ways = append(ways, resume("--from-seq <n>")+"   # what was pushed already comes again")
	}
	return ways
}
