package client_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/protocol"
)

func Example() {
	nc, err := nats.Connect(url)
	if err != nil {
		log.Fatal(err)
	}
	defer nc.Close()
	c, err := client.New(nc)
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	chores := c.Queue("chores")

	for priority, chore := range map[int64]string{5: "read the news", 1: "put out the fire", 9: "tidy the desk"} {
		if _, err := chores.Push(ctx, []byte(chore), client.Priority(priority)); err != nil {
			log.Fatal(err)
		}
	}
	first, err := chores.Pop(ctx, client.Min)
	if err != nil {
		log.Fatal(err)
	}
	last, err := chores.Pop(ctx, client.Max)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("first: %s\nlast: %s\n", first.Payload, last.Payload)
	// Output:
	// first: put out the fire
	// last: tidy the desk
}

// exampleQueue is a queue of its own for each example.
func exampleQueue(name string) (*client.Queue, func()) {
	nc, err := nats.Connect(url)
	if err != nil {
		log.Fatal(err)
	}
	c, err := client.New(nc)
	if err != nil {
		log.Fatal(err)
	}
	return c.Queue(name), nc.Close
}

// A worker of one stage whose results are the items of the next stage. Wherever it
// crashes, nothing is lost and nothing is doubled.
func ExampleItem_HandOver() {
	orders, done := exampleQueue("orders")
	defer done()
	mails, done := exampleQueue("mails")
	defer done()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	agrees := "mails"
	if _, err := orders.Configure(ctx, client.ConfigChange{HandOver: &agrees}); err != nil {
		log.Fatal(err)
	}
	if _, err := orders.Push(ctx, []byte("two pizzas")); err != nil {
		log.Fatal(err)
	}

	work := func(ctx context.Context, order *client.Item) error {
		_, err := order.HandOver(ctx, mails, fmt.Appendf(nil, "%s are on their way", order.Payload))
		return err
	}
	if err := orders.Consume(ctx, work, client.ConsumeOptions{Limit: 1}); err != nil {
		log.Fatal(err)
	}
	mail, err := mails.Pop(ctx, client.Min)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(string(mail.Payload))
	// Output: two pizzas are on their way
}

// A worker that handles jobs until ctx ends, eight at a time.
func ExampleQueue_Consume() {
	jobs, done := exampleQueue("consumed")
	defer done()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if _, err := jobs.Push(ctx, []byte("greet the world")); err != nil {
		log.Fatal(err)
	}

	work := func(ctx context.Context, item *client.Item) error {
		fmt.Println(string(item.Payload))
		cancel() // one is enough for an example
		return nil
	}
	if err := jobs.Consume(ctx, work, client.ConsumeOptions{Workers: 8}); err != nil {
		log.Fatal(err)
	}
	// Output: greet the world
}

// A leased item returns unless it is acknowledged.
func ExampleItem_Ack() {
	jobs, done := exampleQueue("leased")
	defer done()
	ctx := context.Background()
	if _, err := jobs.Push(ctx, []byte("pay the bill")); err != nil {
		log.Fatal(err)
	}

	item, err := jobs.Pop(ctx, client.Min, client.Lease(time.Minute))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s, delivery %d\n", item.Payload, item.Deliveries)
	switch err := item.Ack(ctx); {
	case errors.Is(err, client.ErrLeaseLost):
		fmt.Println("the lease ran out: another worker does it again")
	case err != nil:
		log.Fatal(err)
	}
	_, err = jobs.Pop(ctx, client.Min)
	fmt.Println(errors.Is(err, client.ErrEmpty))
	// Output:
	// pay the bill, delivery 1
	// true
}

// A function on one machine is called on another: what it takes and returns travels as JSON.
func ExampleWork() {
	orders, done := exampleQueue("calls")
	defer done()
	type order struct{ Pizzas int }
	type receipt struct{ Cents int }
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	go client.Work(ctx, orders, func(ctx context.Context, o order) (receipt, error) {
		if o.Pizzas == 0 {
			return receipt{}, client.GiveUp(errors.New("an order of nothing")) // any other error: again, later
		}
		return receipt{Cents: 950 * o.Pizzas}, nil
	}, client.ConsumeOptions{Workers: 4, OnError: func(*client.Item, error) {}})

	paid, err := client.Call[receipt](ctx, orders, order{Pizzas: 2})
	fmt.Println(paid, err)
	_, err = client.Call[receipt](ctx, orders, order{})
	var failed *client.CallError
	if errors.As(err, &failed) {
		fmt.Println(failed.Result.Outcome, failed.Result.Cause)
	}
	// Output:
	// {1900} <nil>
	// dead an order of nothing
}

// A web handler pushes a job and waits for its result, for as long as its visitor is likely to.
func ExampleQueue_PushAndWait() {
	sums, done := exampleQueue("sums")
	defer done()
	workers, stop := context.WithCancel(context.Background())
	defer stop()
	go sums.Consume(workers, func(ctx context.Context, item *client.Item) error {
		a, b, _ := strings.Cut(string(item.Payload), "+")
		x, errA := strconv.Atoi(a)
		y, errB := strconv.Atoi(b)
		if err := errors.Join(errA, errB); err != nil {
			return client.GiveUp(err)
		}
		return item.AckWith(ctx, []byte(strconv.Itoa(x+y)))
	}, client.ConsumeOptions{OnError: func(*client.Item, error) {}})

	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), 20*time.Second)
		defer cancel()
		result, err := sums.PushAndWait(ctx, []byte(r.FormValue("sum")))
		switch {
		case err != nil:
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		case result.Outcome != protocol.FinishDone:
			http.Error(w, result.Reason, http.StatusUnprocessableEntity)
		default:
			w.Write(result.Body)
		}
	})
	for _, sum := range []string{"1%2B2", "1%2Bx"} {
		answer := httptest.NewRecorder()
		handler.ServeHTTP(answer, httptest.NewRequest("GET", "/?sum="+sum, nil))
		fmt.Println(answer.Code, answer.Body)
	}
	// Output:
	// 200 3
	// 422 strconv.Atoi: parsing "x": invalid syntax
}

// Hold extends the lease during long work.
func ExampleItem_Hold() {
	jobs, done := exampleQueue("held")
	defer done()
	ctx := context.Background()
	if _, err := jobs.Push(ctx, []byte("count the stars")); err != nil {
		log.Fatal(err)
	}

	item, err := jobs.Pop(ctx, client.Min, client.Lease(10*time.Second))
	if err != nil {
		log.Fatal(err)
	}
	held, stop := item.Hold(ctx)
	defer stop()
	count := func(ctx context.Context) error { return ctx.Err() } // may take hours
	if err := count(held); err != nil {
		log.Fatal(context.Cause(held))
	}
	fmt.Println(item.Ack(ctx))
	// Output: <nil>
}

// The error says why nothing was popped.
func ExampleError() {
	jobs, done := exampleQueue("later")
	defer done()
	ctx := context.Background()
	if _, err := jobs.Push(ctx, []byte("wake up"), client.Delay(8*time.Hour)); err != nil {
		log.Fatal(err)
	}

	_, err := jobs.Pop(ctx, client.Min)
	var e *client.Error
	if errors.As(err, &e) {
		fmt.Println(e.Code, e.Reason)
	}
	fmt.Println(err)
	// Output:
	// 404 delayed
	// pop later: queue later: no item is ready, some are delayed (404)
}

// Many concurrent pushes are much faster than one after the other.
func ExampleQueue_PushAsync() {
	jobs, done := exampleQueue("many")
	defer done()
	ctx := context.Background()
	var pushes []*client.Future
	for i := range 1000 {
		f, err := jobs.PushAsync(ctx, fmt.Append(nil, i))
		if err != nil {
			log.Fatal(err)
		}
		pushes = append(pushes, f)
	}
	for _, f := range pushes {
		if _, err := f.Result(); err != nil {
			log.Fatal(err)
		}
	}
	info, err := jobs.Info(ctx)
	fmt.Println(info.Ready, err)
	// Output: 1000 <nil>
}

// An item can be cancelled before a consumer gets it.
func ExampleQueue_Remove() {
	mails, done := exampleQueue("mails")
	defer done()
	ctx := context.Background()
	pushed, err := mails.Push(ctx, []byte("reminder"), client.Delay(time.Hour))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(mails.Remove(ctx, pushed.ID))
	fmt.Println(errors.Is(mails.Remove(ctx, pushed.ID), client.ErrNotFound))
	// Output:
	// <nil>
	// true
}

func ExampleQueue_List() {
	jobs, done := exampleQueue("listed")
	defer done()
	ctx := context.Background()
	for _, job := range []string{"a", "b", "c"} {
		if _, err := jobs.Push(ctx, []byte(job), client.Priority(-int64(job[0]))); err != nil {
			log.Fatal(err)
		}
	}
	for item, err := range jobs.List(ctx, client.ListOptions{Bodies: true}) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(item.Priority, string(item.Body))
	}
	// Output:
	// -99 c
	// -98 b
	// -97 a
}

func ExampleQueue_Configure() {
	jobs, done := exampleQueue("configured")
	defer done()
	config, err := jobs.Configure(context.Background(), client.ConfigChange{
		Lease: new(client.Duration(time.Minute)),
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(config.Lease, config.MaxDeliveries)
	// Output: 1m0s 16
}
