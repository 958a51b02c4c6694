package foreign

import (
	"context"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/internal/reason"
)

// Source has the jobs of another system.
type Source interface {
	// Census counts them.
	Census(context.Context) (Census, error)

	// Each reads the jobs, in their order, until job returns an error.
	Each(ctx context.Context, job func(Job) error) error

	Close() error
}

// Job is a job of another system, as an item.
type Job struct {
	*client.Import
	Name  string // for people
	Wrong error  // why it cannot be an item; then Import has what could be read
}

// Census is how many jobs a source has.
type Census struct {
	Jobs int64    // that Each reads
	Held int64    // of them or beside them, with workers
	Left []string // what stays behind, for people

	Paused bool // the queue hands out nothing there
}

// Options say what to read, and where.
type Options struct {
	Redis  string // address of Redis
	Prefix string // of the keys there; "": as the system has it
	Held   bool   // jobs that workers hold, too
	Failed bool   // those that have failed, and nothing else

	// Values of items that are taken from messages of a stream; "": none.
	Priority, Key string
}

// Open returns the source that a text such as bullmq:emails names. A stream is read by the
// connection.
func Open(name string, o Options, connect func() (*nats.Conn, error)) (Source, error) {
	system, name, _ := strings.Cut(name, ":")
	open, known := map[string]func() (Source, error){
		"bullmq":    func() (Source, error) { return openBullMQ(name, o) },
		"celery":    func() (Source, error) { return openCelery(name, o) },
		"jetstream": func() (Source, error) { return openStream(name, o, connect) },
	}[system]
	if !known || name == "" {
		return nil, fmt.Errorf("expected bullmq:<queue>, celery:<queue> or jetstream:<stream>")
	}
	if o.Failed && system != "bullmq" {
		return nil, fmt.Errorf("%s keeps no jobs that have failed", system)
	}
	if system != "jetstream" && (o.Priority != "" || o.Key != "") {
		return nil, fmt.Errorf("priorities and keys are taken from the messages of streams alone")
	}
	return open()
}

// maxDeadReason is how long a reason of a dead letter may be.
const maxDeadReason = 512

// shorten is a reason as pqd keeps it.
func shorten(text string, most int) string { return strings.TrimSpace(reason.Text(text, most)) }

// hashPage is how many jobs one request reads, each of which may have a megabyte.
const hashPage = 50
