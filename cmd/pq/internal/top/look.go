package top

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/cmd/pq/internal/figures"
)

// look is what top asks for at a time.
type look interface {
	ask(ctx context.Context, c *client.Client) (any, error)
}

// seen is the answer to a look, or why there is none.
type seen struct {
	look  look
	began time.Time
	took  time.Duration
	found any
	err   error
}

// mostNames is how many queues top looks at without turning a page.
const mostNames = 1000

// overviewLook asks for the names of queues, and for the figures of those that are shown.
type overviewLook struct {
	after, begin string // names behind the one, that begin with the other
	all          bool   // the figures of all queues, if the first page has them all
	first        string // otherwise of these many from this name
	rows         int
}

type overviewFound struct {
	names   []string
	next    string // the page has not all
	figures map[string]*figures.Queue
}

func (l overviewLook) ask(ctx context.Context, c *client.Client) (any, error) {
	page, err := c.QueuesPage(ctx, client.QueuesOptions{After: l.after, Prefix: l.begin, Limit: mostNames})
	if err != nil {
		return nil, err
	}
	// A bridge may send less than was asked for, but never more.
	names := page.Queues[:min(len(page.Queues), mostNames)]
	shown := names
	if !l.all || l.after != "" || page.Next != "" {
		from, _ := slices.BinarySearch(names, l.first)
		shown = names[min(from, max(0, len(names)-l.rows)):]
		shown = shown[:min(l.rows, len(shown))]
	}
	known := func(name string) bool { // whether it exists is known by the page
		return l.after == "" && page.Next == "" && strings.HasPrefix(name, l.begin)
	}
	found, err := askFigures(ctx, c, shown, func(name string) bool {
		_, there := slices.BinarySearch(names, name)
		return there || !known(name)
	})
	if err != nil {
		return nil, err
	}
	gone := func(name string) bool {
		_, asked := slices.BinarySearch(shown, name)
		return asked && found[name] == nil
	}
	return overviewFound{slices.DeleteFunc(slices.Clone(names), gone), page.Next, found}, nil
}

// askFigures asks about queues and their dead letters. Only those for which exists returns
// true may exist.
func askFigures(ctx context.Context, c *client.Client, names []string, exists func(string) bool) (map[string]*figures.Queue, error) {
	at := time.Now()
	left := new(figures.Unasked)
	infos, err := figures.InfosOf(ctx, c, names, left)
	if err != nil {
		return nil, err
	}
	named := figures.ByName(infos)
	missing := make(map[string]bool)
	for _, i := range infos {
		in := figures.Holder(i)
		if in != "" && named[in] == nil && exists(in) {
			missing[in] = true
		}
	}
	holders, err := figures.InfosOf(ctx, c, slices.Sorted(maps.Keys(missing)), left)
	if err != nil {
		return nil, err
	}
	maps.Copy(named, figures.ByName(holders))
	found := make(map[string]*figures.Queue, len(infos))
	for _, f := range figures.Of(infos, named, at) {
		found[f.Queue] = f
	}
	return found, nil
}

// rowsLook asks for the figures of queues that have come into view.
type rowsLook struct{ names []string }

type rowsFound struct{ figures map[string]*figures.Queue }

func (l rowsLook) ask(ctx context.Context, c *client.Client) (any, error) {
	found, err := askFigures(ctx, c, l.names, func(string) bool { return true })
	return rowsFound{found}, err
}

// dead is the tab of dead letters, beside those of the states.
const dead client.State = "dead"

// queueLook asks for a queue, and for the items that are shown of it.
type queueLook struct {
	queue  string
	tab    client.State
	behind string // items behind this id
	rows   int
}

type queueFound struct {
	info   *client.Info // nil: there is no such queue
	dead   *client.Info // its dead letters; nil: none
	listed []client.Listed
	more   bool
}

func (l queueLook) ask(ctx context.Context, c *client.Client) (any, error) {
	info, err := existing(c.Queue(l.queue).Info(ctx))
	if err != nil || info == nil {
		return queueFound{}, err
	}
	found := queueFound{info: info}
	in := figures.Holder(info)
	if in != "" {
		if found.dead, err = existing(c.Queue(in).Info(ctx)); err != nil {
			return nil, err
		}
	}
	list, state := l.queue, l.tab
	if l.tab == dead {
		list, state = in, client.Ready
	}
	if list == "" || l.tab == dead && found.dead == nil {
		return found, nil
	}
	for item, err := range c.Queue(list).List(ctx, client.ListOptions{State: state, After: l.behind, Page: l.rows + 1}) {
		if errors.Is(err, client.ErrNotFound) {
			break // deleted meanwhile
		}
		if err != nil {
			return nil, err
		}
		if found.more = len(found.listed) == l.rows; found.more {
			break
		}
		found.listed = append(found.listed, item)
	}
	return found, nil
}

// existing makes nothing of what does not exist.
func existing(info *client.Info, err error) (*client.Info, error) {
	if errors.Is(err, client.ErrNotFound) {
		return nil, nil
	}
	return info, err
}

// itemLook asks for an item with its payload.
type itemLook struct{ queue, id string }

type itemFound struct {
	item *client.Item // nil: gone
}

func (l itemLook) ask(ctx context.Context, c *client.Client) (any, error) {
	item, err := c.Queue(l.queue).Get(ctx, l.id)
	if errors.Is(err, client.ErrNotFound) {
		return itemFound{}, nil
	}
	return itemFound{item}, err
}
