package demo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pqbridge/pqbridge/client"
)

// popWait is how long a step waits for an item that has to come within a second or two.
const popWait = 10 * time.Second

// urgentFirst pushes in one order, and pops in that of the priorities. Some items stay, to be looked at.
func urgentFirst(ctx context.Context, d *demo, p *page) error {
	q := d.client.Queue(urgent)
	var pushed, popped []string
	for _, one := range []struct {
		what     string
		priority int64
	}{{"tidy the desk", 9}, {"read the news", 5}, {"put out the fire", 1}, {"answer the phone", 2}, {"file the papers", 9}} {
		if _, err := q.Push(ctx, []byte(one.what), client.Priority(one.priority)); err != nil {
			return err
		}
		pushed = append(pushed, fmt.Sprintf("%s (%d)", one.what, one.priority))
	}
	p.say("Pushed, each with its priority: %s.", strings.Join(pushed, ", "))
	var last *client.Item
	for range 3 {
		item, err := q.Pop(ctx, client.Min)
		if err != nil {
			return err
		}
		if last != nil && item.Priority < last.Priority {
			return fmt.Errorf("%q (%d) was popped behind %q (%d)", item.Payload, item.Priority, last.Payload, last.Priority)
		}
		last = item
		popped = append(popped, fmt.Sprintf("%s (%d)", item.Payload, item.Priority))
	}
	p.say("Popped, low priorities first: %s.", strings.Join(popped, ", "))
	waiting, err := q.PeekBatch(ctx, client.Min, len(pushed))
	if err != nil {
		return err
	}
	var left []string
	for _, item := range waiting {
		if item.Priority < last.Priority {
			return fmt.Errorf("%q (%d) waits, and %q (%d) was popped", item.Payload, item.Priority, last.Payload, last.Priority)
		}
		left = append(left, fmt.Sprintf("%s (%d)", item.Payload, item.Priority))
	}
	p.say("Equal ones keep the order of their pushes, and wait: %s.", strings.Join(left, ", "))
	p.look("pq list " + urgent + " --bodies")
	all := slices.Concat(popped, left)
	if slices.Sort(all); !slices.Equal(all, slices.Sorted(slices.Values(pushed))) {
		return fmt.Errorf("popped and waiting are %q, of the pushed %q", all, pushed)
	}
	if len(left) != 2 || left[0] != pushed[0] {
		return fmt.Errorf("%q wait, expected the two of priority 9 in the order of their pushes", left)
	}
	return expect(ctx, q, client.Info{Ready: int64(len(left))})
}

// expect compares how many items a queue has, in each state.
func expect(ctx context.Context, q *client.Queue, want client.Info) error {
	info, err := q.Info(ctx)
	if err != nil {
		return err
	}
	if info.Ready != want.Ready || info.Leased != want.Leased || info.Delayed != want.Delayed {
		return fmt.Errorf("%s has %d ready, %d leased, %d delayed items, expected %d, %d, %d",
			q.Name(), info.Ready, info.Leased, info.Delayed, want.Ready, want.Leased, want.Delayed)
	}
	return nil
}

// takeTurns has a tenant with many items in front of one with few: those need not wait for all of the first.
func takeTurns(ctx context.Context, d *demo, p *page) error {
	q := d.client.Queue(tenants)
	const large, small, each, taken = "large", "small", 12, 8
	for _, key := range []string{large, small} {
		weight := 1
		if key == large {
			weight = 3
		}
		for n := range each {
			if _, err := q.Push(ctx, fmt.Appendf(nil, "job %d", n+1), client.Key(key), client.Weight(weight)); err != nil {
				return err
			}
		}
	}
	p.say("The tenant %s (weight 3) pushed %d jobs, and then %s (weight 1) as many.", large, each, small)
	got := make(map[string]int)
	var order []string
	for range taken {
		item, err := q.Pop(ctx, client.Min)
		if err != nil {
			return err
		}
		got[item.Key]++
		order = append(order, item.Key)
		if err := item.Ack(ctx); err != nil {
			return err
		}
	}
	p.say("A worker got %s: %d to %d.", strings.Join(order, ", "), got[large], got[small])
	p.look("pq keys " + tenants)
	for _, key := range []string{large, small} {
		info, err := q.Key(ctx, key)
		if err != nil {
			return err
		}
		if info.Ready != each-got[key] {
			return fmt.Errorf("%d jobs of %s wait, expected %d", info.Ready, key, each-got[key])
		}
	}
	if at := got[small] - taken/4; at < -1 || at > 1 || got[small] == 0 {
		return fmt.Errorf("%s got %d of %d, expected about a quarter", small, got[small], taken)
	}
	return nil
}

// spendBudget reserves more than an item costs in the end: what was reserved in vain lets the next one go.
func spendBudget(ctx context.Context, d *demo, p *page) error {
	q := d.client.Queue(budget)
	const guess, truth, next = 1200, 300, 400
	for _, one := range []struct {
		what string
		cost int64
	}{{"a poem", guess}, {"a letter", next}} {
		if _, err := q.Push(ctx, []byte(one.what), client.Cost(one.cost)); err != nil {
			return err
		}
	}
	first, err := q.Pop(ctx, client.Min)
	if err != nil {
		return err
	}
	owed, err := tokens(ctx, q)
	if err != nil {
		return err
	}
	p.say("The budget is %d tokens. %s is leased, and costs %d by the guess of its push: %d tokens are left.", tokensAnHour, first.Payload, first.Cost, owed)
	if owed >= 0 {
		return fmt.Errorf("%d tokens are left, expected %d, and what has come since", owed, tokensAnHour-guess)
	}
	_, err = q.Pop(ctx, client.Min)
	if refused := (*client.Error)(nil); !errors.Is(err, client.ErrEmpty) || !errors.As(err, &refused) || refused.Reason != client.ReasonRate {
		return fmt.Errorf("a pop without tokens: %w, expected it refused for the rate", cmp.Or(err, errors.New("it got an item")))
	}
	info, err := q.Info(ctx)
	if err != nil {
		return err
	}
	p.say("The next pop is refused. pq explain says: %s: %s", info.Explain.Cause, info.Explain.Text)
	if info.Explain.Cause != client.Cause(client.ReasonRate) {
		return fmt.Errorf("the cause is %s, expected %s", info.Explain.Cause, client.ReasonRate)
	}
	first.Spent(truth)
	if err := first.Ack(ctx); err != nil {
		return err
	}
	left, err := tokens(ctx, q)
	if err != nil {
		return err
	}
	second, err := q.Pop(ctx, client.Min)
	if err != nil {
		return err
	}
	p.say("Its worker says that it has cost %d: %d tokens come back, %d are left, and %s goes at once.", truth, left-owed, left, second.Payload)
	p.look("pq info "+budget, "pq help cost")
	if back := left - owed; back < guess-truth-1 { // both numbers are rounded
		return fmt.Errorf("%d tokens came back, expected %d", back, guess-truth)
	}
	return errors.Join(second.Ack(ctx), expect(ctx, q, client.Info{}))
}

// tokens are how much cost a queue allows now.
func tokens(ctx context.Context, q *client.Queue) (int64, error) {
	info, err := q.Info(ctx)
	if err != nil {
		return 0, err
	}
	if info.CostTokens == nil {
		return 0, fmt.Errorf("%s has no budget", q.Name())
	}
	return *info.CostTokens, nil
}
