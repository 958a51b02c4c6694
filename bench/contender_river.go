package main

import (
	"context"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

// startSharedPostgres starts PostgreSQL as the comparison sets it up.
func startSharedPostgres(ctx context.Context, at *site, s *server) error {
	return startPostgresWith(ctx, s,
		"max_connections=400", "shared_buffers=256MB", "work_mem=8MB", "maintenance_work_mem=128MB",
		"synchronous_commit=on", "wal_level=replica", "autovacuum_naptime=60s", "autovacuum_vacuum_cost_limit=200")
}

// riverJobs uses River with the intervals that the comparison gives it.
type riverJobs struct {
	pool   *pgxpool.Pool
	client *river.Client[pgx.Tx]
	done   *func([]byte)
}

type riverArgs struct{ Payload []byte }

func (riverArgs) Kind() string { return jobsQueue }

type riverWorker struct {
	river.WorkerDefaults[riverArgs]
	done *func([]byte)
}

func (w *riverWorker) Work(_ context.Context, job *river.Job[riverArgs]) error {
	(*w.done)(job.Args.Payload)
	return nil
}

const (
	riverConnections = 20
	riverPoll        = 50 * time.Millisecond
	riverRescue      = 30 * time.Second // after which a job that its worker left is worked on again
)

func connectRiver(ctx context.Context, addr string) (jobs, error) {
	config, err := pgxpool.ParseConfig(postgresURL(addr))
	if err != nil {
		return nil, err
	}
	config.MaxConns = riverConnections
	config.ConnConfig.RuntimeParams["application_name"] = replicaName
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	q := &riverJobs{pool: pool, done: new(func([]byte))}
	workers := river.NewWorkers()
	river.AddWorker(workers, &riverWorker{done: q.done})
	q.client, err = river.NewClient(riverpgxv5.New(pool), &river.Config{
		Queues: map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: replicaWorkers}}, Workers: workers,
		Logger: slog.New(slog.NewTextHandler(os.Stderr, nil)), JobTimeout: -1,
		FetchCooldown: riverPoll, FetchPollInterval: riverPoll, RescueStuckJobsAfter: riverRescue,
	})
	return q, err
}

func prepareRiver(ctx context.Context, addr string) error {
	pool, err := pgxpool.New(ctx, postgresURL(addr))
	if err != nil {
		return err
	}
	defer pool.Close()
	migrator, err := rivermigrate.New(riverpgxv5.New(pool), nil)
	if err != nil {
		return err
	}
	_, err = migrator.Migrate(ctx, rivermigrate.DirectionUp, nil)
	return err
}

func (q *riverJobs) push(ctx context.Context, payloads [][]byte) error {
	params := make([]river.InsertManyParams, len(payloads))
	for i, payload := range payloads {
		params[i].Args = riverArgs{payload}
	}
	_, err := q.client.InsertManyFast(ctx, params)
	return err
}

func (q *riverJobs) work(ctx context.Context, done func([]byte)) error {
	*q.done = done
	if err := q.client.Start(context.WithoutCancel(ctx)); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

// onPostgres calls do with a connection.
func onPostgres(ctx context.Context, addr string, do func(*pgx.Conn) error) error {
	conn, err := pgx.Connect(ctx, postgresURL(addr))
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	return do(conn)
}

func terminateBackends(ctx context.Context, addr string) error {
	return onPostgres(ctx, addr, func(conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, `select pg_terminate_backend(pid) from pg_stat_activity where application_name = $1`, replicaName)
		return err
	})
}

func idleOnPostgres(ctx context.Context, addr string) (io.Closer, error) {
	conn, err := pgx.Connect(ctx, postgresURL(addr))
	if err != nil {
		return nil, err
	}
	return closer(func() error { return conn.Close(context.WithoutCancel(ctx)) }), nil
}

// holdTransaction holds a transaction that has an id, so that vacuum removes nothing that
// is younger.
func holdTransaction(ctx context.Context, addr string) error {
	return onPostgres(ctx, addr, func(conn *pgx.Conn) error {
		if _, err := conn.Exec(ctx, "begin"); err != nil {
			return err
		}
		if _, err := conn.Exec(ctx, "select txid_current()"); err != nil {
			return err
		}
		<-ctx.Done()
		return nil
	})
}

// scanTable counts the jobs in one transaction that sees the table as it was.
func scanTable(ctx context.Context, addr string) error {
	return onPostgres(ctx, addr, func(conn *pgx.Conn) error {
		if _, err := conn.Exec(ctx, "begin isolation level repeatable read"); err != nil {
			return err
		}
		for ctx.Err() == nil {
			if _, err := conn.Exec(ctx, "select count(*) from river_job"); err != nil && ctx.Err() == nil {
				return err
			}
			pause(ctx, scanPause)
		}
		return nil
	})
}
