package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/nats-io/nats.go"

	pqclient "github.com/pqbridge/pqbridge/client"
)

// watchedConfig has a system account, so that connections can be seen and cut.
const watchedConfig = `accounts {
  $SYS: {users: [{user: sys, password: sys}]}
  jobs: {users: [{user: jobs, password: jobs}]}
}
`

const replicaName = "replica" // of the connections of replicas

func startWatchedPQD(ctx context.Context, at *site, s *server) error {
	config := filepath.Join(at.dir, "watched.conf")
	if err := os.WriteFile(config, []byte(watchedConfig), 0o644); err != nil {
		return err
	}
	return startPQD("PQ_NATS_CONFIG="+config, "NATS_USER=jobs", "NATS_PASSWORD=jobs")(ctx, at, s)
}

func connectJobsNATS(addr, name string, more ...nats.Option) (*nats.Conn, error) {
	return nats.Connect("nats://"+addr, append(more, nats.UserInfo("jobs", "jobs"), nats.Name(name), nats.MaxReconnects(-1), nats.RetryOnFailedConnect(true))...)
}

// openJobs connects to the queue of jobs.
func openJobs(addr, name string, more ...nats.Option) (*nats.Conn, *pqclient.Queue, error) {
	nc, err := connectJobsNATS(addr, name, more...)
	if err != nil {
		return nil, nil, err
	}
	c, err := pqclient.New(nc)
	if err != nil {
		nc.Close()
		return nil, nil, err
	}
	return nc, c.Queue(jobsQueue), nil
}

// pqdJobs uses a queue as the Go client offers it, with its defaults.
type pqdJobs struct{ queue *pqclient.Queue }

const jobsQueue = "jobs"

func connectJobs(_ context.Context, addr string, more ...nats.Option) (jobs, error) {
	_, queue, err := openJobs(addr, replicaName, more...)
	return pqdJobs{queue}, err
}

// pushLimit is how long a push is tried: longer than any fault.
const pushLimit = 10 * time.Minute

func (q pqdJobs) push(ctx context.Context, payloads [][]byte) error {
	ctx, cancel := context.WithTimeout(ctx, pushLimit)
	defer cancel()
	items := make([]pqclient.NewItem, len(payloads))
	for i, payload := range payloads {
		items[i].Payload = payload
	}
	_, err := q.queue.PushMany(ctx, items...)
	return err
}

func (q pqdJobs) work(ctx context.Context, done func([]byte)) error {
	return q.queue.Consume(ctx, func(_ context.Context, item *pqclient.Item) error {
		done(item.Payload)
		return nil
	}, pqclient.ConsumeOptions{Workers: replicaWorkers})
}

// kickReplicas has the NATS server close every connection of the replicas.
func kickReplicas(_ context.Context, addr string) error {
	nc, err := nats.Connect("nats://"+addr, nats.UserInfo("sys", "sys"))
	if err != nil {
		return err
	}
	defer nc.Close()
	var answer struct {
		Server struct{ ID string }
		Data   struct {
			Connections []struct {
				CID  uint64
				Name string
			}
		}
	}
	m, err := nc.Request("$SYS.REQ.SERVER.PING.CONNZ", []byte(`{"limit":1024}`), answerLimit)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(m.Data, &answer); err != nil {
		return err
	}
	for _, c := range answer.Data.Connections {
		if c.Name != replicaName {
			continue
		}
		// One that has gone since is refused, which is as well.
		if _, err := nc.Request("$SYS.REQ.SERVER."+answer.Server.ID+".KICK", fmt.Appendf(nil, `{"cid":%d}`, c.CID), answerLimit); err != nil {
			return err
		}
	}
	return nil
}

func idleOnNATS(_ context.Context, addr string) (io.Closer, error) {
	nc, err := connectJobsNATS(addr, "idle")
	return closer(func() error { nc.Close(); return nil }), err
}

// holding is how many jobs are held.
const holding = 100

// holdLeases leases jobs and does nothing with them. At the end it gives them back.
func holdLeases(ctx context.Context, addr string) error {
	nc, queue, err := openJobs(addr, "holder")
	if err != nil {
		return err
	}
	defer nc.Close()
	var held []*pqclient.Item
	for len(held) < holding && ctx.Err() == nil {
		items, err := queue.PopBatch(ctx, pqclient.Min, holding-len(held), pqclient.Lease(10*time.Minute), pqclient.Wait(100*time.Millisecond))
		held = append(held, items...)
		if err != nil && !errors.Is(err, pqclient.ErrEmpty) && ctx.Err() == nil {
			return err
		}
	}
	<-ctx.Done()
	for _, item := range held {
		if err := item.Nack(context.WithoutCancel(ctx)); err != nil {
			return err
		}
	}
	return nil
}

const scanPause = 100 * time.Millisecond

// scanQueue lists what waits, and what is leased.
func scanQueue(ctx context.Context, addr string) error {
	nc, queue, err := openJobs(addr, "reader")
	if err != nil {
		return err
	}
	defer nc.Close()
	for ctx.Err() == nil {
		for _, state := range []pqclient.State{pqclient.Ready, pqclient.Leased} {
			for _, err := range queue.List(ctx, pqclient.ListOptions{State: state, Page: 1000}) {
				if err != nil && ctx.Err() == nil {
					return err
				}
			}
		}
		pause(ctx, scanPause)
	}
	return nil
}

func prepareJobs(_ context.Context, addr string) error {
	nc, err := nats.Connect("nats://"+addr, nats.UserInfo("jobs", "jobs"))
	if err != nil {
		return err
	}
	defer nc.Close()
	m, err := nc.Request("pq."+jobsQueue+".info", nil, time.Second)
	if err == nil && m.Header.Get("Nats-Service-Error-Code") == "503" {
		err = errors.New("pqd does not serve yet")
	}
	return err
}
