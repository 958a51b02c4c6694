package commands

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/pqbridge/pqbridge/cmd/pqd/internal/settings"
	"github.com/pqbridge/pqbridge/cmd/pqd/internal/store"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/fdbpq/kv/local"
	"github.com/pqbridge/pqbridge/internal/storecheck"
	"github.com/pqbridge/pqbridge/subjects"
)

// strangeNames returns a sentence for each of the first hundred queues with a name that no queue may have. Nobody can ask
// for such a queue.
func strangeNames(ctx context.Context, store *fdbpq.Store) (problems []string, err error) {
	const most = 100
	for after, more := "", true; err == nil && more && len(problems) < most; {
		err = store.View(ctx, func(r kv.Reader) error {
			names, err := store.Queues(r, after, fdbpq.MaxBatch)
			for _, name := range names {
				if after = name; subjects.CheckStored(name) != nil && len(problems) < most {
					problems = append(problems, fmt.Sprintf("queue %q: no queue may have this name; pqd salvage writes its items out", name))
				}
			}
			more = len(names) > 0
			return err
		})
	}
	return problems, err
}

// Check looks for damage in a store that no process has open, such as a copy.
func Check(ctx context.Context, s settings.Settings, log *slog.Logger, stdout io.Writer) (err error) {
	dir, err := store.Dir(s, "one that others use changes while it is looked at")
	if err != nil {
		return err
	}
	// Opening would create a store in another directory.
	if files, err := os.ReadDir(dir); err != nil || len(files) == 0 {
		return errors.Join(fmt.Errorf("PQ_STORE=%s: expected the directory of a store", s.Store), err)
	}
	db, err := local.Open(dir, local.Options{ReadOnly: true, Log: log}) // another user may check than pqd's
	if err != nil {
		return fmt.Errorf("PQ_STORE=%s: %w", s.Store, store.AdviseDamage(err, s))
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	queues, err := fdbpq.Open(ctx, db, fdbpq.Options{Exclusive: true})
	if err != nil {
		return err
	}
	problems, unread := storecheck.Check(ctx, queues)
	if unread == nil {
		var names []string
		names, unread = strangeNames(ctx, queues)
		problems = append(problems, names...)
	}
	for _, problem := range problems {
		if _, err := fmt.Fprintln(stdout, problem); err != nil {
			return err
		}
	}
	if unread != nil {
		return store.AdviseDamage(unread, s)
	}
	if len(problems) > 0 {
		return fmt.Errorf("the store in %s is damaged, see above", dir)
	}
	_, err = fmt.Fprintf(stdout, "the store in %s has no damage (id %s)\n", dir, queues.ID())
	return err
}
