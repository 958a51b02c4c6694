package main

import (
	"context"

	"github.com/nats-io/nats.go"

	pqclient "github.com/pqbridge/pqbridge/client"
)

// pqdLibrary is package client.
type pqdLibrary struct {
	nc    *nats.Conn
	queue *pqclient.Queue
}

func openPQDLibrary(addr string, _ int) (library, error) {
	nc, err := nats.Connect("nats://" + addr)
	if err != nil {
		return nil, err
	}
	c, err := pqclient.New(nc, pqclient.MixPriorities())
	if err != nil {
		nc.Close()
		return nil, err
	}
	return pqdLibrary{nc, c.Queue(jobsQueue)}, nil
}

func (l pqdLibrary) push(ctx context.Context, priority int, payload []byte) error {
	_, err := l.queue.Push(ctx, payload, pqclient.Priority(int64(priority)), pqclient.WithoutMsgID())
	return err
}

func (l pqdLibrary) work(ctx context.Context, workers int, handled func()) error {
	var failed error
	err := l.queue.Consume(ctx, func(context.Context, *pqclient.Item) error {
		handled()
		return nil
	}, pqclient.ConsumeOptions{Workers: workers, StopWhenEmpty: true, OnError: func(_ *pqclient.Item, err error) { failed = err }})
	if err == nil {
		err = failed
	}
	return err
}

func (l pqdLibrary) clear(ctx context.Context) error {
	_, err := l.queue.Purge(ctx)
	return err
}

func (l pqdLibrary) close() error {
	l.nc.Close()
	return nil
}
