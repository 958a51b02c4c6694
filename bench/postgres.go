package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"

	"github.com/jackc/pgx/v5"
)

// postgresClient keeps the queue in a table.
type postgresClient struct {
	conn *pgx.Conn
}

// The table's only index is its key, in the order of the queue. Vacuum runs
// early and unthrottled, as is advised for a table whose rows do not stay.
const postgresTable = `create table if not exists jobs (
	priority int not null,
	id bigint generated always as identity,
	payload bytea not null,
	primary key (priority, id)
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 10000, autovacuum_vacuum_cost_delay = 0)`

const (
	postgresPush = `insert into jobs (priority, payload) values ($1, $2)`
	postgresHead = `select ctid from jobs order by priority, id limit $1 for update skip locked`
	postgresPop  = `delete from jobs where ctid = any(array(` + postgresHead + `)) returning priority, id, payload`

	// The lease is the lock on the row: it ends with the transaction, also when
	// the client goes away, and costs no write.
	postgresLease = `select priority, id, payload from jobs order by priority, id limit 1 for update skip locked`
	postgresAck   = `delete from jobs where priority = $1 and id = $2`
)

func postgresURL(addr string) string {
	return "postgres://bench@" + addr + "/postgres?sslmode=disable"
}

func connectPostgres(addr string) (client, error) {
	ctx, cancel := context.WithTimeout(context.Background(), answerLimit)
	defer cancel()
	conn, err := pgx.Connect(ctx, postgresURL(addr))
	if err != nil {
		return nil, err
	}
	return &postgresClient{conn}, nil
}

func preparePostgres(addr string) error {
	c, err := connectPostgres(addr)
	if err != nil {
		return err
	}
	defer c.close()
	_, err = c.(*postgresClient).conn.Exec(context.Background(), postgresTable)
	return err
}

func (c *postgresClient) push(priority int, payload []byte) error {
	_, err := c.conn.Exec(context.Background(), postgresPush, priority, payload)
	return err
}

// row is an item as it comes back.
type row struct {
	priority int
	id       int64
	payload  []byte
}

func (r *row) fields() []any { return []any{&r.priority, &r.id, &r.payload} }

func (c *postgresClient) pop() error {
	var r row
	err := c.conn.QueryRow(context.Background(), postgresPop, 1).Scan(r.fields()...)
	if errors.Is(err, pgx.ErrNoRows) {
		return errEmpty
	}
	return err
}

// lease is two round trips: begin and select, delete and commit.
func (c *postgresClient) lease() error {
	ctx := context.Background()
	var r row
	var take pgx.Batch
	take.Queue("begin")
	take.Queue(postgresLease)
	results := c.conn.SendBatch(ctx, &take)
	_, err := results.Exec()
	if err == nil {
		err = results.QueryRow().Scan(r.fields()...)
	}
	if err := errors.Join(err, results.Close()); err != nil {
		return err
	}
	var ack pgx.Batch
	ack.Queue(postgresAck, r.priority, r.id)
	ack.Queue("commit")
	results = c.conn.SendBatch(ctx, &ack)
	tag, err := results.Exec()
	if err == nil && tag.RowsAffected() != 1 {
		err = fmt.Errorf("expected 1 row to delete, found %d", tag.RowsAffected())
	}
	if err == nil {
		_, err = results.Exec()
	}
	return errors.Join(err, results.Close())
}

const (
	postgresPushMany  = `insert into jobs (priority, payload) select * from unnest($1::int[], $2::bytea[])`
	postgresLeaseMany = `select priority, id, payload from jobs order by priority, id limit $1 for update skip locked`
	postgresAckMany   = `delete from jobs j using unnest($1::int[], $2::bigint[]) as of (priority, id) where j.priority = of.priority and j.id = of.id`
)

func (c *postgresClient) pushMany(n int, items *payloads) error {
	numbers, texts := make([]int32, n), make([][]byte, n)
	for i := range n {
		texts[i] = bytes.Clone(items.next())
		numbers[i] = int32(items.priority())
	}
	_, err := c.conn.Exec(context.Background(), postgresPushMany, numbers, texts)
	return err
}

func (c *postgresClient) popMany(n int) error {
	rows, err := c.conn.Query(context.Background(), postgresPop, n)
	if err != nil {
		return err
	}
	_, err = readRows(rows, n)
	return err
}

// readRows reads n items.
func readRows(rows pgx.Rows, n int) ([]row, error) {
	all, err := pgx.CollectRows(rows, func(from pgx.CollectableRow) (r row, err error) {
		return r, from.Scan(r.fields()...)
	})
	if err == nil && len(all) != n {
		err = errShort
	}
	return all, err
}

// leaseMany is two round trips, too.
func (c *postgresClient) leaseMany(n int) error {
	ctx := context.Background()
	var take pgx.Batch
	take.Queue("begin")
	take.Queue(postgresLeaseMany, n)
	results := c.conn.SendBatch(ctx, &take)
	_, err := results.Exec()
	var leased []row
	if err == nil {
		var rows pgx.Rows
		if rows, err = results.Query(); err == nil {
			leased, err = readRows(rows, n)
		}
	}
	if err := errors.Join(err, results.Close()); err != nil {
		return err
	}
	numbers, ids := make([]int32, n), make([]int64, n)
	for i := range leased {
		numbers[i], ids[i] = int32(leased[i].priority), leased[i].id
	}
	var ack pgx.Batch
	ack.Queue(postgresAckMany, numbers, ids)
	ack.Queue("commit")
	results = c.conn.SendBatch(ctx, &ack)
	tag, err := results.Exec()
	if err == nil && tag.RowsAffected() != int64(n) {
		err = fmt.Errorf("expected %d rows to delete, found %d", n, tag.RowsAffected())
	}
	if err == nil {
		_, err = results.Exec()
	}
	return errors.Join(err, results.Close())
}

func (c *postgresClient) leave() error  { return errNoSuchVerb }
func (c *postgresClient) settle() error { return nil }

func (c *postgresClient) fill(n int, items *payloads) error {
	_, err := c.conn.CopyFrom(context.Background(), pgx.Identifier{"jobs"}, []string{"priority", "payload"},
		pgx.CopyFromSlice(n, func(int) ([]any, error) {
			payload := items.next()
			return []any{items.priority(), payload}, nil
		}))
	return err
}

func (c *postgresClient) drain(n int) error {
	tag, err := c.conn.Exec(context.Background(), postgresPop, n)
	if err == nil && tag.RowsAffected() != int64(n) {
		err = fmt.Errorf("expected %d rows to delete, found %d", n, tag.RowsAffected())
	}
	return err
}

func (c *postgresClient) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), answerLimit)
	defer cancel()
	return c.conn.Close(ctx)
}

// postgresPrograms is where Debian keeps those that are in no PATH.
const postgresPrograms = "/usr/lib/postgresql/*/bin"

// postgresProgram is the newest version's.
func postgresProgram(name string) string {
	found, err := filepath.Glob(filepath.Join(postgresPrograms, name))
	if err != nil || len(found) == 0 {
		return name
	}
	return found[len(found)-1]
}

func startPostgres(ctx context.Context, _ *site, s *server) error {
	return startPostgresWith(ctx, s,
		"max_connections=300", "fsync=on", "synchronous_commit=on", "full_page_writes=on",
		"shared_buffers=1GB", "max_wal_size=8GB", "checkpoint_timeout=15min", "wal_buffers=64MB",
		"autovacuum_naptime=1s", "jit=off", "enable_seqscan=off", "random_page_cost=1.1",
	)
}

// startPostgresWith starts PostgreSQL with these settings.
func startPostgresWith(ctx context.Context, s *server, settings ...string) error {
	var err error
	if s.addr, err = freeAddr(); err != nil {
		return err
	}
	_, port, err := net.SplitHostPort(s.addr)
	if err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(s.dir, "PG_VERSION")); errors.Is(err, fs.ErrNotExist) {
		err := finish(ctx, s.name, s.dir, command{path: postgresProgram("initdb"), user: "postgres",
			args: []string{"-D", s.dir, "-U", "bench", "-A", "trust", "-E", "UTF8", "--locale=C"}})
		if err != nil {
			return err
		}
		if err := os.Chmod(s.dir, 0o700); err != nil {
			return err
		}
	}
	settings = append(settings, "listen_addresses="+loopback, "port="+port, "unix_socket_directories=")
	args := []string{"-D", s.dir}
	for _, setting := range settings {
		args = append(args, "-c", setting)
	}
	p, err := launch(s.name, s.dir, command{path: s.system.program, user: "postgres", args: args})
	if err != nil {
		return err
	}
	s.processes = []*process{p}
	return nil
}
