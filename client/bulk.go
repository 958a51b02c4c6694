package client

import (
	"context"
	"encoding/json"
	"time"

	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/subjects"
)

// BulkVerb is what a bulk operation does to the items that fit.
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

// BulkWhere says which items a bulk operation is about: all that is given has to fit.
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

	// After goes on where another run ended: it is the Next of its result.
	After string

	// Progress, if it is there, is called after each page with what was done so far.
	Progress func(BulkResult)
}

// BulkResult is what a bulk operation did.
type BulkResult struct {
	Done   int64 // items that were changed
	Looked int64 // at so many

	// AtLeast: a page had no answer and was repeated, so more items may have been changed than
	// Done says.
	AtLeast bool

	// Full: the queue that the items go to has no room for the next one.
	Full bool

	// Next is where a further run goes on, after an error or in a queue that was full; "": this one
	// came to its end.
	Next string
}

// Bulk does something to all items that fit, page after page. Each page is one transaction, and
// one without an answer is repeated: it does nothing twice. The operation passes over what came
// after it began. With an error the result says how far it came.
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

// bulkPage does a page, and adds what it did to the result.
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
