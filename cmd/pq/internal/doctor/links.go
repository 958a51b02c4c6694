package doctor

import (
	"context"
	"time"

	"github.com/pqbridge/pqbridge/client"
)

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
