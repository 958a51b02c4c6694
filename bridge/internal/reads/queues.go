package reads

import (
	"errors"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/pqbridge/pqbridge/bridge/internal/codec"
	"github.com/pqbridge/pqbridge/bridge/internal/failure"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/subjects"
)

// queues lists the names of the queues: a part of all of them, with an offset and their total; or a page behind a
// name, which reads only the page.
type queues struct {
	jsonQuery
	offset *int64
	after  *string
	prefix string
	limit  int
}

func (q *queues) Read(*codec.Wire) *failure.Failure {
	q.limit = protocol.DefaultListLimit
	f := codec.ReadOptions(q.Msg, q.Subject.Verb.String(), "offset, limit, after, prefix", q.field)
	if f == nil && q.offset != nil && q.paged() {
		f = failure.Newf(400, "found offset with after or prefix: expected one of them")
	}
	return f
}

func (q *queues) field(name string, value any) (known bool, f *failure.Failure) {
	switch name {
	case "limit":
		q.limit, f = codec.ReadLimit(name, value)
	case "offset":
		var n int64
		n, f = codec.ReadInteger(name, value, 0, math.MaxInt64)
		q.offset = &n
	case "after":
		var s string
		s, f = codec.ReadString(name, value)
		q.after = &s
	case "prefix":
		q.prefix, f = codec.ReadString(name, value)
	default:
		return false, nil
	}
	return true, f
}

func (q *queues) paged() bool { return q.after != nil || q.prefix != "" }

func (q *queues) Find(v *View) error {
	if q.paged() {
		return q.findPage(v)
	}
	names, err := queueNames(v, q.scope())
	if err != nil {
		return err
	}
	var offset int64
	if q.offset != nil {
		offset = *q.offset
	}
	first := int(min(offset, int64(len(names))))
	last := min(first+q.limit, len(names))
	return q.answerJSON(protocol.Queues{Total: len(names), Offset: offset, Limit: q.limit, Queues: names[first:last]})
}

// scope is the beginning of the names of all queues that the request is about: the queues of the asking tenant, or all queues.
func (q *queues) scope() string {
	if q.Subject.Tenant == "" {
		return ""
	}
	return q.Subject.Tenant + "."
}

func (q *queues) findPage(v *View) error {
	names := []string{}
	scope := q.scope()
	after := q.prefix
	if q.after != nil && *q.after >= q.prefix {
		after = *q.after
	} else if subjects.CheckQueue(subjects.Own(q.prefix)) == nil {
		exact, err := v.Store.Queue(scope + q.prefix).Inspect(v.Reader)
		later := errors.Is(err, fdbpq.ErrFormat) // a queue that only a later program serves is there, too
		if err != nil && !later {
			return err
		}
		if exact != nil || later {
			names = append(names, q.prefix)
		}
	}
	behind, err := v.Store.Queues(v.Reader, scope+after, q.limit+1)
	if err != nil {
		return err
	}
	for _, name := range behind {
		if own, is := strings.CutPrefix(name, scope); is && strings.HasPrefix(own, q.prefix) {
			names = append(names, own)
		}
	}
	page := protocol.QueuesPage{Queues: names}
	if len(names) > q.limit {
		page.Queues = names[:q.limit]
		page.Next = names[q.limit-1]
	}
	page.Absent = q.absent(v.Taking, &page)
	return q.answerJSON(page)
}

// absent are the queues between the beginning of a page and its end that have no rows, and pops that wait.
func (q *queues) absent(taking func(func(queue string) bool) map[string]int, page *protocol.QueuesPage) (absent []protocol.AbsentQueue) {
	scope := q.scope()
	there := taking(func(queue string) bool {
		own, is := strings.CutPrefix(queue, scope)
		return is && strings.HasPrefix(own, q.prefix) && (q.after == nil || own > *q.after) && (page.Next == "" || own <= page.Next)
	})
	for _, name := range page.Queues {
		delete(there, scope+name)
	}
	for _, queue := range slices.Sorted(maps.Keys(there)) {
		if len(absent) == protocol.MaxAbsent {
			break
		}
		absent = append(absent, protocol.AbsentQueue{Queue: strings.TrimPrefix(queue, scope), Waiting: there[queue]})
	}
	return absent
}

// queueNames are the names of all queues that begin with a scope, read once for however many requests: there
// may be many queues, and the total is part of every answer.
func queueNames(v *View, scope string) ([]string, error) {
	if names, known := v.names[scope]; known {
		return names, nil
	}
	names := []string{}
	for after, more := scope, true; more; {
		page, err := v.Store.Queues(v.Reader, after, queuesPerRead)
		if err != nil {
			return nil, err
		}
		more = len(page) == queuesPerRead
		for _, name := range page {
			own, is := strings.CutPrefix(name, scope)
			if more = more && is; is {
				names = append(names, own)
			}
			after = name
		}
	}
	if v.names == nil {
		v.names = make(map[string][]string)
	}
	v.names[scope] = names
	return names, nil
}

const queuesPerRead = 1000
