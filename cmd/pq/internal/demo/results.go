package demo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/protocol"
)

// sum is a job for the worker of the calls.
type sum struct {
	Numbers []int
	Slow    bool // it goes on until somebody cancels it
}

// slowJob is what the worker says of a slow job.
type slowJob struct {
	id    string
	ended error // why
}

// call has a caller wait for a result, and another one that goes away while its job is worked on.
func call(ctx context.Context, d *demo, p *page) error {
	q := d.client.Queue(calls)
	begun, ended := make(chan slowJob, 1), make(chan slowJob, 1)
	working, stop := context.WithCancel(ctx)
	stopped := make(chan error, 1)
	go func() {
		stopped <- client.Work(working, q, func(ctx context.Context, in sum) (total int, err error) {
			if in.Slow {
				job := slowJob{id: client.ItemOf(ctx).ID}
				tell(begun, job)
				<-ctx.Done()
				job.ended = context.Cause(ctx)
				tell(ended, job)
				return 0, job.ended
			}
			for _, n := range in.Numbers {
				total += n
			}
			return total, nil
		}, client.ConsumeOptions{Lease: 3 * time.Second, OnError: func(*client.Item, error) {}}) // each error is that of a cancelled job
	}()
	err := errors.Join(ask(ctx, q, p), giveUp(ctx, q, p, begun, ended))
	stop()
	if err = errors.Join(err, <-stopped); err != nil {
		return err
	}
	return expect(ctx, q, client.Info{})
}

// tell says something that is asked for once: a job whose lease ran out on a busy machine begins again.
func tell(to chan<- slowJob, job slowJob) {
	select {
	case to <- job:
	default:
	}
}

// ask waits for a result.
func ask(ctx context.Context, q *client.Queue, p *page) error {
	numbers := []int{2, 3, 37}
	began := time.Now()
	total, err := client.Call[int](ctx, q, sum{Numbers: numbers})
	if err != nil {
		return err
	}
	p.say("A caller pushes the sum of %v, and waits. After %d ms it has the result: %d.", numbers, time.Since(began).Milliseconds(), total)
	if total != 42 {
		return fmt.Errorf("the sum is %d, expected 42", total)
	}
	return nil
}

// giveUp ends the wait for a job that has begun.
func giveUp(ctx context.Context, q *client.Queue, p *page, begun, ended <-chan slowJob) error {
	waiting, hangUp := context.WithCancel(ctx)
	defer hangUp()
	given := make(chan error, 1)
	go func() {
		_, err := client.Call[int](waiting, q, sum{Slow: true}, client.CancelOnHangUp())
		given <- err
	}()
	var job slowJob
	select {
	case job = <-begun:
	case err := <-given:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
	hangUp()
	var heard error
	select {
	case job = <-ended:
		heard = job.ended
	case <-ctx.Done():
		return ctx.Err()
	}
	if err := <-given; !errors.Is(err, client.ErrCancelled) {
		return fmt.Errorf("the wait ended with: %w, expected it cancelled", cmp.Or(err, errors.New("a result")))
	}
	result, err := q.Result(ctx, job.id)
	if err != nil {
		return err
	}
	p.say("Another caller gives up while the worker is busy. The worker hears: %v. The queue says: %s.", heard, result.Outcome)
	p.look("pq result "+calls+" "+job.id, "pq help results")
	if !errors.Is(heard, client.ErrCancelled) || result.Outcome != protocol.FinishCancelled {
		return fmt.Errorf("the worker heard %v, and the queue says %s: expected both cancelled", heard, result.Outcome)
	}
	return nil
}

// tick has a schedule fire some times.
func tick(ctx context.Context, d *demo, p *page) error {
	q := d.client.Queue(clock)
	const name, payload, times = "every-second", "tick", 3
	made, err := q.SetSchedule(ctx, name, client.ScheduleChange{
		Spec: new("@every 1s"), Item: &client.ScheduleItem{Payload: new(payload)},
	})
	if err != nil {
		return err
	}
	p.say("The schedule %s (%s) is there.", made.Name, made.Spec)
	var last time.Time
	for n := range times {
		item, err := q.Pop(ctx, client.Min, client.Wait(popWait))
		if err != nil {
			return err
		}
		p.say("%s of %s came %d ms behind its time.", item.Payload, item.ScheduledAt.Local().Format(time.TimeOnly), item.Pushed.Sub(item.ScheduledAt).Milliseconds())
		if step := item.ScheduledAt.Sub(last); item.Schedule != name || string(item.Payload) != payload || n > 0 && (step < time.Second || step%time.Second != 0) {
			return fmt.Errorf("%q of the schedule %q came for %s, %s behind the one before: expected %q of %q, a second behind it",
				item.Payload, item.Schedule, item.ScheduledAt, step, payload, name)
		}
		last = item.ScheduledAt
	}
	fired, err := q.Schedule(ctx, name)
	if err != nil {
		return err
	}
	if fired.Counts.Fired < times {
		return fmt.Errorf("the schedule counts %d times, expected %d", fired.Counts.Fired, times)
	}
	if err := q.DeleteSchedule(ctx, name); err != nil {
		return err
	}
	if _, err = q.Schedule(ctx, name); !errors.Is(err, client.ErrNotFound) {
		return fmt.Errorf("the removed schedule: %w, expected none", cmp.Or(err, errors.New("it is there")))
	}
	p.say("It fired %d times, and is removed.", fired.Counts.Fired)
	p.look("pq schedule ls "+clock, "pq help schedules")
	return nil
}
