package codec

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"hash/fnv"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/bridge/internal/failure"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/subjects"
)

// bulkReader reads the body of a bulk operation.
type bulkReader struct {
	bulk       fdbpq.Bulk
	filter     uint32 // sum of the fields of where, in whatever order they came
	after      *string
	fields     string // that the verb has
	all, any   bool
	given      bool // where was
	where      bool // some field of it
	prioritize bool
}

const (
	bulkFields  = "where, all, dry_run, limit, after"
	whereFields = "state, min, max, key, header, reason, cause, origin, holder, pushed_before, pushed_after, deliveries, interruptions"
)

// bulkVerbs are the bulk operations, with the fields that they have besides bulkFields.
var bulkVerbs = map[subjects.Verb]struct {
	verb fdbpq.BulkVerb
	own  string
}{
	subjects.AdminRemove:  {fdbpq.BulkRemove, ""},
	subjects.AdminMove:    {fdbpq.BulkMove, ", priority"},
	subjects.AdminRevoke:  {fdbpq.BulkRevoke, ", delay, reason"},
	subjects.AdminRequeue: {fdbpq.BulkRequeue, ", to, any, spread"},
}

// ReadBulk reads a page of a bulk operation, and the mark of its cursors.
func ReadBulk(m *nats.Msg, s *subjects.Subject) (fdbpq.Bulk, BulkMark, *failure.Failure) {
	name := s.Verb.String()
	if f := NoOwnHeaders(m.Header, name); f != nil {
		return fdbpq.Bulk{}, "", f
	}
	kind := bulkVerbs[s.Verb]
	r := bulkReader{fields: bulkFields + kind.own, bulk: fdbpq.Bulk{Verb: kind.verb, Limit: fdbpq.MaxBulk}}
	if f := ReadObject("the body of "+name, m.Data, r.fields, r.field); f != nil {
		return fdbpq.Bulk{}, "", f
	}
	if f := r.check(s); f != nil {
		return fdbpq.Bulk{}, "", f
	}
	mark := r.mark(s)
	if r.after == nil {
		return r.bulk, mark, nil
	}
	f := mark.read(*r.after, &r.bulk)
	return r.bulk, mark, f
}

// check refuses fields that contradict each other, and fills in defaults.
func (r *bulkReader) check(s *subjects.Subject) *failure.Failure {
	b, w := &r.bulk, &r.bulk.Where
	switch {
	case !r.where && (r.given || !r.all):
		return failure.Newf(400, `where is empty: expected some of its fields, or "all":true in its place`)
	case r.where && r.all:
		return failure.Newf(400, "found all and where: expected one of them")
	case b.Verb == fdbpq.BulkMove && !r.prioritize:
		return failure.Newf(400, "expected priority: the one that the items get")
	}
	if w.State == "" {
		if w.State = fdbpq.StateReady; b.Verb == fdbpq.BulkRevoke {
			w.State = fdbpq.StateLeased
		}
	}
	switch {
	case b.Verb == fdbpq.BulkRevoke && w.State != fdbpq.StateLeased:
		return failure.Newf(400, `where: state is "%s": expected "leased", because leased items have leases to revoke`, w.State)
	case w.Holder != "" && w.State != fdbpq.StateLeased:
		return failure.Newf(400, `where: holder is set: expected state to be "leased", because leased items have holders`)
	case w.Band != nil && w.Band.Low > w.Band.High:
		return failure.Newf(400, "where: min is %d and max is %d: expected min to be no more than max", w.Band.Low, w.Band.High)
	case b.Verb == fdbpq.BulkRequeue && b.To == "":
		own := subjects.Own(s.Queue)
		home, is := strings.CutSuffix(own, fdbpq.DeadLetterSuffix)
		if !is || subjects.CheckQueue(home) != nil {
			return failure.Newf(400, "expected to: the queue that the dead letters come from, since the name %s does not say it", own)
		}
		b.To = home
	}
	if r.any {
		return failure.Newf(403, "queue %s takes back its own dead letters alone: expected a body without the field any", b.To)
	}
	return nil
}

func (r *bulkReader) field(name string, value any) (known bool, f *failure.Failure) {
	b := &r.bulk
	if !slices.Contains(strings.Split(r.fields, ", "), name) {
		return false, nil
	}
	switch name {
	case "where":
		r.given = true
		f = readMembersOf(name, value, whereFields, r.whereField)
	case "all":
		r.all, f = ReadBool(name, value)
	case "dry_run":
		b.DryRun, f = ReadBool(name, value)
	case "limit":
		var n int64
		n, f = ReadInteger(name, value, 0, math.MaxInt64)
		b.Limit = int(min(n, fdbpq.MaxBulk))
	case "after":
		var text string
		text, f = ReadString(name, value)
		r.after = &text
	case "priority":
		r.prioritize = true
		b.Priority, f = ReadInteger(name, value, math.MinInt64, math.MaxInt64)
	case "delay":
		b.Revoke.Delay = new(time.Duration)
		*b.Revoke.Delay, f = readDelay(name, value)
	case "reason":
		b.Revoke.Reason, f = readReason(name, value)
	case "to":
		if b.To, f = ReadString(name, value); f == nil {
			f = CheckQueueName(b.To)
		}
	case "any":
		r.any, f = ReadBool(name, value)
	case "spread":
		b.Spread, f = readDelay(name, value)
	default:
		return false, nil
	}
	return true, f
}

// BulkMark begins the cursors of an operation on a queue. A cursor of another operation, or of another filter,
// would pass over the items in front of it.
type BulkMark string

// mark is known when all of the body is read.
func (r *bulkReader) mark(s *subjects.Subject) BulkMark {
	hash := fnv.New32a()
	fmt.Fprintf(hash, "%s.%s %s %x", s.Queue, s.Verb, r.bulk.Where.State, r.filter)
	return BulkMark(base64.RawURLEncoding.EncodeToString(hash.Sum(nil)))
}

// filtered takes a field of where into the mark.
func (r *bulkReader) filtered(name string, value any) {
	hash := fnv.New32a()
	fmt.Fprintf(hash, "%q %v", name, value)
	r.filter += hash.Sum32()
}

// Cursor is a cursor as it is answered.
func (m BulkMark) Cursor(c *fdbpq.BulkCursor) string { return string(m) + c.String() }

// read makes a page continue at a cursor.
func (m BulkMark) read(text string, page *fdbpq.Bulk) *failure.Failure {
	rest, own := strings.CutPrefix(text, string(m))
	cursor, err := fdbpq.ParseBulkCursor(rest)
	if err != nil || !own {
		return failure.Newf(400, "after is %s: expected the cursor that the page before has answered, of the same operation on this queue with the same where", failure.Quote(text))
	}
	page.After = cursor
	return nil
}

func (r *bulkReader) whereField(name string, value any) (known bool, f *failure.Failure) {
	w := &r.bulk.Where
	r.where = true
	what := "where: " + name
	if name != "state" && name != "header" { // the state has a default, and headers are fields of their own
		r.filtered(name, value)
	}
	switch name {
	case "state":
		w.State, f = ReadState(what, value)
	case "min", "max":
		w.Band, f = ReadBand(w.Band, what, name == "min", value)
	case "key":
		if w.Key, f = readSome(what, value); f == nil {
			_, f = ReadKey(what, w.Key)
		}
	case "header":
		want := make(headerFilter)
		f = readMembersOf(what, value, "the headers", func(header string, value any) (bool, *failure.Failure) {
			text, f := readText(what+": "+failure.Quote(header), value)
			r.filtered("header "+header, value)
			if f == nil {
				want[header] = headerText{len(want), text}
			}
			return true, f
		})
		if f == nil && len(want) == 0 {
			f = failure.Newf(400, `%s is empty: expected an object such as {"Name":"value"}`, what)
		}
		w.Headers = want.fits
	case "reason":
		w.Reason, f = readText(what, value)
	case "cause":
		w.Cause, f = readText(what, value)
	case "origin":
		w.Origin, f = readText(what, value)
	case "holder":
		w.Holder, f = ReadHolder(what, value)
	case "pushed_before":
		w.PushedBefore, f = readTime(what, value)
	case "pushed_after":
		w.PushedAfter, f = readTime(what, value)
	case "deliveries":
		w.Deliveries, f = ReadInteger(what, value, 1, maxNumber)
	case "interruptions":
		w.Interruptions, f = ReadInteger(what, value, 1, maxNumber)
	default:
		return false, nil
	}
	return true, f
}

// readSome reads a string that is not empty.
func readSome(what string, value any) (string, *failure.Failure) {
	s, f := ReadString(what, value)
	if f == nil && s == "" {
		f = failure.Newf(400, "%s is empty: expected some text, or no such field", what)
	}
	return s, f
}

// readText reads a text, or, with * at the end, the beginning of texts.
func readText(what string, value any) (*fdbpq.Text, *failure.Failure) {
	s, f := readSome(what, value)
	text, prefix := strings.CutSuffix(s, "*")
	return &fdbpq.Text{Text: text, Prefix: prefix}, f
}

// headerFilter are the headers that an item has to have, by their names.
type headerFilter map[string]headerText

type headerText struct {
	number int // among the headers
	value  *fdbpq.Text
}

// fits reports whether a block of headers has all of them. It goes through the block once: both may be long.
func (want headerFilter) fits(block []byte) bool {
	fit, left := make([]bool, len(want)), len(want)
	for line := range bytes.SplitSeq(block, []byte("\r\n")) {
		name, value, _ := bytes.Cut(line, []byte(": "))
		if text, is := want[string(name)]; is && !fit[text.number] && text.value.Fits(string(value)) {
			fit[text.number] = true
			left--
		}
	}
	return left == 0
}
