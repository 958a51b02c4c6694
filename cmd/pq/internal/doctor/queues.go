package doctor

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/cmd/pq/internal/figures"
	"github.com/pqbridge/pqbridge/cmd/pq/internal/show"
	"github.com/pqbridge/pqbridge/protocol"
)

// queues looks for queues that need attention. It asks for them a page at a time: there may be
// more than are read in the time for one answer.
func (d *doctor) queues() {
	found, feeds, gives := new(remarks), &sources{doctor: d}, &links{doctor: d}
	seen, after := 0, ""
	for page := 0; page == 0 || after != ""; page++ {
		var infos []*client.Info
		permitted, err := d.try(func(ctx context.Context) (err error) {
			infos, after, err = d.queuesBehind(ctx, after)
			return err
		})
		switch {
		case !permitted:
			d.note(fine, "queues", "not known: this user may not see them")
			return
		case errors.Is(err, client.ErrNotFound):
			d.note(warn, "queues", "there is no queue %s yet: the first push makes it", d.queue)
			return
		case err != nil:
			found.note(d)
			d.note(bad, "queues", "after %s: %v", show.Many(int64(seen), "queue"), err)
			return
		}
		seen += len(infos)
		for _, i := range infos {
			examineQueue(i, found.add)
		}
		feeds.examine(infos, found.add)
		gives.examine(infos, found.add)
	}
	feeds.again(found.add)
	if found.note(d); len(found.kinds) == 0 {
		d.note(fine, "queues", "%s, nothing to remark", show.Many(int64(seen), "queue"))
	}
}

// queuesBehind asks about a page of queues, or about the one that was given.
func (d *doctor) queuesBehind(ctx context.Context, after string) (infos []*client.Info, next string, err error) {
	if d.queue != "" {
		info, err := d.client.Queue(d.queue).Info(ctx)
		return []*client.Info{info}, "", err
	}
	page, err := d.client.QueuesPage(ctx, client.QueuesOptions{After: after, Limit: figures.NamesPage})
	if err != nil {
		return nil, "", err
	}
	infos, err = figures.InfosOf(ctx, d.client, page.Queues)
	return infos, page.Next, err
}

// kind is a kind of remark. The text ends "3 more queues …".
type kind string

const (
	holdsDead  kind = "hold dead letters"
	isPaused   kind = "are paused"
	isFull     kind = "are full"
	unworked   kind = "have items that nobody takes"
	starves    kind = "have items that wait behind more urgent ones"
	mostOfKind      = 10 // remarks of a kind that are printed
)

// remarks are those about all queues.
type remarks struct {
	kinds []kind // in the order in which they were found
	texts map[kind][]string
	more  map[kind]int64
}

func (r *remarks) add(k kind, format string, args ...any) {
	if r.texts == nil {
		r.texts, r.more = make(map[kind][]string), make(map[kind]int64)
	}
	switch n := len(r.texts[k]); {
	case n == 0:
		r.kinds = append(r.kinds, k)
	case n == mostOfKind:
		r.more[k]++
		return
	}
	r.texts[k] = append(r.texts[k], fmt.Sprintf(format, args...))
}

func (r *remarks) note(d *doctor) {
	for _, k := range r.kinds {
		for _, text := range r.texts[k] {
			d.note(warn, "queues", "%s", text)
		}
		if n := r.more[k]; n > 0 {
			d.note(warn, "queues", "and %s more queues %s: \"pq ls\" shows all", show.Thousands(n), k)
		}
	}
}

// unattended is the age of an unpopped item from which doctor warns.
const unattended = time.Hour

func examineQueue(i *client.Info, remark func(k kind, format string, args ...any)) {
	if origin, is := strings.CutSuffix(i.Queue, "-dead"); is && i.Ready > 0 {
		remark(holdsDead, `%s holds %s: "pq dead list %s" says why, "pq dead requeue %s --all" tries them again`,
			i.Queue, show.Many(i.Ready, "dead letter"), origin, origin)
		return
	}
	if i.Paused {
		remark(isPaused, `%s is paused: "pq resume %s" ends that`, i.Queue, i.Queue)
	}
	if most := i.Config.MaxLength; most > 0 && i.Ready+i.Leased+i.Delayed >= most {
		remark(isFull, "%s is full (max_length %s): consume faster, or raise it with \"pq config\"", i.Queue, show.Thousands(most))
	}
	if most := i.Config.MaxBytes; most > 0 && i.Bytes+protocol.ItemBytes*(i.Ready+i.Leased+i.Delayed) >= most {
		remark(isFull, "%s is full (max_bytes %s): consume faster, or raise it with \"pq config\"", i.Queue, show.Thousands(most))
	}
	if age := show.Seconds(i.Oldest); !i.Paused && i.Ready > 0 && age > unattended && i.Rates.Pop < 0.1 {
		remark(unworked, "%s has %s, the next of them waiting for %s, and nobody takes them: start a worker", i.Queue, show.Many(i.Ready, "item"), show.Span(age))
	} else if age := show.Seconds(i.OldestOfAll); !i.Paused && age > unattended && show.Seconds(i.Oldest) < age/2 {
		remark(starves, "%s has an item that has waited for %s behind more urgent ones: make deadlines its priorities, or start more workers", i.Queue, figures.OldestOf(i.Ready, i.OldestOfAll, i.OldestAtLeast))
	}
}
