package client

import (
	"context"
	"encoding/json"
	"time"

	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/subjects"
)

// BulkVerb is the operation on the items that fit.
type BulkVerb string

// The verbs of bulk operations.
const (
	BulkRemove  BulkVerb = "remove"  // removes them, leased ones, too
	BulkMove    BulkVerb = "move"    // gives them a priority
	BulkRevoke  BulkVerb = "revoke"  // ends their leases
	BulkRequeue BulkVerb = "requeue" // pushes dead letters to their queue again
)

var bulkSubjects = map[BulkVerb]subjects.Verb{
	BulkRemove: subjects.AdminRemove, BulkMove: subjects.AdminMove, BulkRevoke: subjects.AdminRevoke, BulkRequeue: subjects.AdminRequeue,
}

// BulkWhere selects the items of a bulk operation: all given fields have to fit.
type BulkWhere = protocol.BulkWhere

// Bulk is a bulk operation.
type Bulk struct {
	Verb   BulkVerb
	Where  BulkWhere
	All    bool // instead of Where: all items of its state
	DryRun bool // count what would be done, and change nothing
	Page   int  // changes of one request at most; 0: 500

	Priority int64          // of BulkMove
	Delay    *time.Duration // of BulkRevoke: until the items are ready again; nil: as the queue's backoff says
	Reason   string         // of BulkRevoke, for the record of the attempts
	To       string         // of BulkRequeue: the queue that the items go to; "": the name of this one without -dead
	Spread   time.Duration  // of BulkRequeue: the time over which the items become ready

	// After continues another run: it is the Next of its result.
	After string

	// Progress, if set, is called after each page with the result so far.
	Progress func(BulkResult)
}

// BulkResult is the result of a bulk operation.
type BulkResult struct {
	Done   int64 // items that were changed
	Looked int64 // items that were looked at

	// AtLeast: a page had no answer and was repeated, so more items may have been changed than
	// Done says.
	AtLeast bool

	// Full: the queue that the items go to has no room for the next one.
	Full bool

	// Next is where a further run continues, after an error or when the receiving queue is full; "": this run came
	// to its end.
	Next string
}

// Bulk changes all items that fit, page after page. Each page is one transaction. A page without an answer is
// repeated, and does nothing twice. The operation passes over items that came after it began. With an error the
// result says how far it came.
func (q *Queue) Bulk(ctx context.Context, b Bulk) (result BulkResult, err error) {
	request := protocol.BulkRequest{
		All: b.All, DryRun: b.DryRun, After: b.After, Delay: (*protocol.Duration)(b.Delay), Reason: b.Reason, To: b.To, Spread: protocol.Duration(b.Spread),
	}
	if where, err := json.Marshal(b.Where); err != nil {
		return result, err
	} else if string(where) != "{}" || !b.All {
		request.Where = &b.Where
	}
	if b.Verb == BulkMove {
		request.Priority = &b.Priority
	}
	if result.Next = b.After; b.After == "" {
		request.Limit = new(int) // where it begins is settled before anything changes
		if err := q.bulkPage(ctx, &b, &request, &result); err != nil || result.Next == "" {
			return result, err
		}
	}
	request.Limit = nil
	if b.Page > 0 {
		request.Limit = &b.Page
	}
	for {
		request.After = result.Next
		if err := q.bulkPage(ctx, &b, &request, &result); err != nil {
			return result, err
		}
		if b.Progress != nil {
			b.Progress(result)
		}
		if result.Full || result.Next == "" {
			return result, nil
		}
	}
}

// bulkPage runs a page, and adds its numbers to the result.
func (q *Queue) bulkPage(ctx context.Context, b *Bulk, request *protocol.BulkRequest, result *BulkResult) error {
	body, err := json.Marshal(request)
	if err != nil {
		return err
	}
	subject, err := q.subject(subjects.Subject{Verb: bulkSubjects[b.Verb]})
	if err != nil {
		return err
	}
	r := &call{op: "bulk " + string(b.Verb), queue: q.name, subject: subject, body: body}
	m, err := q.client.do(ctx, r)
	if err != nil {
		result.AtLeast = result.AtLeast || r.open() && !b.DryRun
		return err
	}
	var page protocol.BulkAnswer
	if err := json.Unmarshal(m.Data, &page); err != nil {
		return unreadable(r.op, q.name, m.Data, err)
	}
	result.Done += int64(page.Done)
	result.Looked += int64(page.Looked)
	result.AtLeast = result.AtLeast || r.open() && !b.DryRun
	result.Full, result.Next = page.Stopped == protocol.StoppedFull, page.Next
	return nil
}
