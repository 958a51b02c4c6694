package reads

import (
	"time"

	"github.com/pqbridge/pqbridge/bridge/internal/codec"
	"github.com/pqbridge/pqbridge/bridge/internal/desk"
	"github.com/pqbridge/pqbridge/bridge/internal/failure"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/subjects"
)

// list shows a page of items.
type list struct {
	jsonQuery
	page     fdbpq.Listing
	attempts bool // with the attempts of the items
	progress bool // with their progress
}

func List(subjects.Verb) desk.Work { return new(list) }

func (l *list) Expects() int { return l.page.Limit / listedPart }

func (l *list) Read(*codec.Wire) *failure.Failure {
	l.page.Limit = protocol.DefaultListLimit
	f := codec.ReadOptions(l.Msg, l.Subject.Verb.String(), "limit, after, state, min, max, key, holder, bodies, preview, attempts, progress", l.field)
	if b := l.page.Band; f == nil && b != nil && b.Low > b.High {
		f = failure.Newf(400, "min is %d and max is %d: expected min to be no more than max", b.Low, b.High)
	}
	if f == nil && l.page.Key != "" && l.page.State != "" && l.page.State != fdbpq.StateReady {
		f = failure.Newf(400, `state is "%s", and key is set: expected "ready", because a list by key has ready items alone`, l.page.State)
	}
	if f == nil && l.page.Holder != "" && l.page.State != fdbpq.StateLeased {
		f = failure.Newf(400, `holder is set: expected state to be "leased", because leased items have holders`)
	}
	if f == nil && l.page.Bodies && l.page.Preview > 0 {
		f = failure.Newf(400, "found bodies and preview: expected one of them")
	}
	return f
}

func (l *list) field(name string, value any) (known bool, f *failure.Failure) {
	switch name {
	case "limit":
		l.page.Limit, f = codec.ReadLimit(name, value)
	case "bodies":
		l.page.Bodies, f = codec.ReadBool(name, value)
	case "attempts":
		l.attempts, f = codec.ReadBool(name, value)
	case "progress":
		l.progress, f = codec.ReadBool(name, value)
	case "holder":
		l.page.Holder, f = codec.ReadHolder(name, value)
	case "preview":
		l.page.Preview, f = codec.ReadInteger(name, value, 1, protocol.MaxPreview)
	case "min", "max":
		l.page.Band, f = codec.ReadBand(l.page.Band, name, name == "min", value)
	case "key":
		if l.page.Key, f = codec.ReadString(name, value); f == nil {
			_, f = codec.ReadKey(name, l.page.Key)
		}
		if f == nil && l.page.Key == "" {
			f = failure.Newf(400, "key is empty: expected one, or no such field")
		}
	case "after":
		var s string
		if s, f = codec.ReadString(name, value); f == nil {
			id, err := fdbpq.ParseID(s)
			if err != nil {
				f = failure.Newf(400, "after is %s: %s", failure.Quote(s), err)
			}
			l.page.After = &id
		}
	case "state":
		l.page.State, f = codec.ReadState(name, value)
	default:
		return false, nil
	}
	return true, f
}

// listedPart is how many entries of a page may cost a request: they have 1 KiB each, then.
const listedPart = 4

// pageReserve is the part of an answer's size for the JSON around the items.
const pageReserve = 256

func (l *list) Find(v *View) error {
	page, err := v.Queue.List(v.Reader, l.page)
	if err != nil {
		return desk.AnswerNoQueue(&l.Request, err)
	}
	space := int(v.Conn.MaxPayload()) - pageReserve
	body := []byte(`{"items":[`)
	last := page.Last.String()
	more := page.More
	for i := range page.Items {
		item := listed(v.Store, &page.Items[i], &l.page)
		if l.attempts {
			if item.LastAttempts, err = codec.Attempts(page.Items[i].Attempts); err != nil {
				return err
			}
		}
		if l.progress {
			item.Progress, item.ProgressAt = page.Items[i].Progress, page.Items[i].ProgressAt.UTC()
		}
		text, err := protocol.Marshal(item)
		if err != nil {
			return err
		}
		if len(body)+len(text) > space && i > 0 {
			more, last = true, page.Items[i-1].ID.String()
			break
		}
		if text, err = fitting(item, text, space-len(body)); err != nil {
			return err
		}
		if i > 0 {
			body = append(body, ',')
		}
		body = append(body, text...)
	}
	body = append(body, ']')
	if more {
		body = append(append(append(body, `,"next":"`...), last...), '"')
	}
	l.body = append(body, '}')
	return nil
}

// fitting leaves out the parts that make the first item of a page too large for an answer; get shows them. In JSON
// a header may be six times as long as in a message.
func fitting(l *protocol.Listed, text []byte, space int) ([]byte, error) {
	for _, leaveOut := range []func(){
		func() { l.Body, l.Preview = nil, nil },
		func() { l.LastAttempts = nil },
		func() { l.Progress, l.ProgressAt = "", time.Time{} },
		func() { l.Cause = "" },
		func() { l.Headers = nil },
		func() { l.Dead = nil },
		func() { codec.LeaveOutShown(l) },
		func() { l.Holder = "" },
	} {
		if len(text) <= space {
			break
		}
		leaveOut()
		var err error
		if text, err = protocol.Marshal(l); err != nil {
			return nil, err
		}
	}
	return text, nil
}

func listed(store *fdbpq.Store, held *fdbpq.StoredItem, page *fdbpq.Listing) *protocol.Listed {
	item := codec.Listed(held, store.Display)
	switch {
	case page.Bodies:
		item.Body = append([]byte{}, held.Payload...) // empty is not left out
	case page.Preview > 0 && (len(held.Payload) > 0 || held.Size == int64(len(held.Headers))):
		item.Preview = append([]byte{}, held.Payload...)
	}
	return item
}
