package bridge

import (
	"math"

	"github.com/pqbridge/pqbridge/bridge/failure"
	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/subjects"
)

func makeSys(v subjects.Verb) work {
	if v == subjects.SysList {
		return new(queues)
	}
	return new(system)
}

// queues lists the names of the queues.
type queues struct {
	jsonQuery
	offset int64
	limit  int
}

func (q *queues) read(*wire) *failure.Failure {
	q.limit = protocol.DefaultListLimit
	return readOptions(&q.Request, "offset, limit", q.field)
}

func (q *queues) field(name string, value any) (known bool, f *failure.Failure) {
	switch name {
	case "limit":
		q.limit, f = readLimit(name, value)
	case "offset":
		q.offset, f = readInteger(name, value, 0, math.MaxInt64)
	default:
		return false, nil
	}
	return true, f
}

func (q *queues) find(v *view) error {
	names, err := v.queueNames()
	if err != nil {
		return err
	}
	first := int(min(q.offset, int64(len(names))))
	last := min(first+q.limit, len(names))
	return q.answerJSON(protocol.Queues{Total: len(names), Offset: q.offset, Limit: q.limit, Queues: names[first:last]})
}

// queueNames are the names of all queues, read once for however many requests: there
// may be many queues, and the total is part of every answer.
func (v *view) queueNames() ([]string, error) {
	if v.names != nil {
		return v.names, nil
	}
	names := []string{}
	for after := ""; ; {
		more, err := v.store.Queues(v.reader, after, queuesPerRead)
		if err != nil {
			return nil, err
		}
		if names = append(names, more...); len(more) < queuesPerRead {
			v.names = names
			return names, nil
		}
		after = more[len(more)-1]
	}
}

const queuesPerRead = 1000

// system shows the bridge itself.
type system struct{ jsonQuery }

func (s *system) read(*wire) *failure.Failure { return noOptions(&s.Request) }

func (s *system) find(v *view) error {
	answer := v.about.system()
	answer.Limits.Payload = v.answerLimit.payload()
	return s.answerJSON(answer)
}
