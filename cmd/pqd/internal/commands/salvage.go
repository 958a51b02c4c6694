package commands

import (
	"bufio"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/pqbridge/pqbridge/bridge"
	"github.com/pqbridge/pqbridge/cmd/pqd/internal/settings"
	"github.com/pqbridge/pqbridge/cmd/pqd/internal/store"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/fdbpq/kv/local"
	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/subjects"
)

// Salvage writes the readable items of a damaged store that no process has open. It makes a
// file for each queue, in the format of pq export and pq import.
func Salvage(ctx context.Context, s settings.Settings, to string, log *slog.Logger, stdout io.Writer) (err error) {
	dir, err := store.Dir(s, "FoundationDB has copies, and tools of its own")
	if err != nil {
		return err
	}
	files, err := os.ReadDir(dir)
	if err == nil && len(files) == 0 {
		err = fmt.Errorf("%s is empty", dir)
	}
	if err != nil {
		return fmt.Errorf("PQ_STORE=%s: expected the directory of a store: %w", s.Store, err)
	}
	db, err := local.Open(dir, local.Options{Salvage: true, Log: log})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	store, err := fdbpq.Open(ctx, db, fdbpq.Options{Exclusive: true})
	if err != nil {
		return fmt.Errorf("the header of the store cannot be read: %w", err)
	}
	if err := os.Mkdir(to, 0o700); err != nil {
		return err
	}
	x := salvaging{db: db, store: store, to: to, stdout: stdout, page: salvagePage, lost: lostLogs(db.Damage())}
	if err := x.all(ctx); err != nil {
		return err
	}
	for _, d := range db.Damage() {
		if _, err := fmt.Fprintf(stdout, "%s is damaged: %s\n", filepath.Base(d.File), d.What); err != nil {
			return err
		}
	}
	if x.incomplete || len(db.Damage()) > 0 {
		return fmt.Errorf("the store is damaged: %s has what is readable, and may lack items; each file says so in its last line", to)
	}
	return nil
}

// salvaging is one run.
type salvaging struct {
	db     *local.DB
	store  *fdbpq.Store
	to     string
	stdout io.Writer
	page   int    // how many queues, and how many items of a queue, are read at a time
	lost   string // the contents that damaged logs may have had; "": none is damaged

	incomplete bool // the items of a queue, or some queues, may be missing
}

// lostLogs describes the contents that damaged logs may have had. They may concern any queue.
func lostLogs(damage []local.Damage) string {
	var logs []string
	for _, d := range damage {
		if filepath.Ext(d.File) == ".log" {
			logs = append(logs, fmt.Sprintf("%s %s", filepath.Base(d.File), d.What))
		}
	}
	if len(logs) == 0 {
		return ""
	}
	return "pushes, pops and settlements may be missing, so items may be, or be there again: " + strings.Join(logs, "; ")
}

const salvagePage = 500

func (x *salvaging) all(ctx context.Context) error {
	for after := ""; ; {
		before := x.db.Skipped()
		var names []string
		err := x.db.View(ctx, func(r kv.Reader) (err error) {
			names, err = x.store.Queues(r, after, x.page)
			return err
		})
		if err != nil {
			return err
		}
		if x.db.Skipped() > before {
			x.incomplete = true
			if _, err := fmt.Fprintln(x.stdout, "some queues cannot be read at all, not even their names"); err != nil {
				return err
			}
		}
		if len(names) == 0 {
			return nil
		}
		for _, name := range names {
			if err := x.queue(ctx, name); err != nil {
				return fmt.Errorf("queue %q: %w", name, err)
			}
		}
		after = names[len(names)-1]
	}
}

// queue writes the readable items of one queue.
func (x *salvaging) queue(ctx context.Context, name string) (err error) {
	path := filepath.Join(x.to, salvageFile(name))
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	out := bufio.NewWriter(file)
	before := x.db.Skipped()
	w := salvagedQueue{salvaging: x, queue: x.store.Queue(name), export: protocol.NewExportWriter(out)}
	for _, state := range []fdbpq.State{fdbpq.StateReady, fdbpq.StateDelayed, fdbpq.StateLeased} {
		if err := w.items(ctx, state); err != nil && !errors.Is(err, fdbpq.ErrFormat) { // which config says, too
			return err
		}
	}
	config, keys, err := w.config(ctx)
	err = errors.Join(err, w.definitions(ctx))
	w.export.Missing = w.missing(x.db.Skipped()-before, err)
	if err := w.export.End(name, config, keys); err != nil {
		return err
	}
	if err := errors.Join(out.Flush(), file.Sync()); err != nil {
		return err
	}
	x.incomplete = x.incomplete || w.export.Missing != ""
	what := "as it was"
	switch w.export.Missing {
	case "":
	case x.lost:
		what = "perhaps not all of it: " + x.lost
	default:
		what = "not all of it: " + w.export.Missing
	}
	_, err = fmt.Fprintf(x.stdout, "%s: %d items in %s, %s\n", salvageName(name), w.export.Items(), path, what)
	return err
}

// salvagedQueue is a queue that is being written.
type salvagedQueue struct {
	*salvaging
	queue  fdbpq.Queue
	export *protocol.ExportWriter
	broken int64 // items of which parts are missing
}

// missing names the parts that are missing, or may be; "" if nothing is.
func (w *salvagedQueue) missing(stretches uint64, config error) string {
	var all []string
	if stretches > 0 || w.broken > 0 {
		all = append(all, fmt.Sprintf("%d stretches and %d items could not be read; what had been taken may be there again", stretches, w.broken))
	}
	switch {
	case errors.Is(config, fdbpq.ErrFormat):
		all = append(all, fmt.Sprintf("nothing of it could be read, a later version of this program has to: %v", config))
	case config != nil:
		all = append(all, fmt.Sprintf("its configuration, settings of keys, or schedules, sources and links could not be read: %v", config))
	}
	if w.lost != "" {
		all = append(all, w.lost)
	}
	return strings.Join(all, "; ")
}

// config is nil when it cannot be read. Then, and with any other error, settings of keys are
// missing.
func (w *salvagedQueue) config(ctx context.Context) (config *protocol.Config, keys map[string]protocol.KeySettings, err error) {
	set := int64(0)
	err = w.db.View(ctx, func(r kv.Reader) error {
		i, err := w.queue.Inspect(r)
		if err == nil && i != nil {
			config, set = new(bridge.Config(i.Config)), i.KeysSet
		}
		return err
	})
	keys = make(map[string]protocol.KeySettings)
	for after := ""; err == nil && int64(len(keys)) < set; {
		var page []fdbpq.KeyInfo
		err = w.db.View(ctx, func(r kv.Reader) (err error) {
			page, err = w.queue.Keys(r, after, fdbpq.MaxKeys)
			return err
		})
		if err == nil && len(page) == 0 {
			err = fmt.Errorf("found the settings of %d keys of %d", len(keys), set)
		}
		for _, k := range page {
			if after = k.Key; k.Settings != (fdbpq.KeySettings{}) {
				keys[k.Key] = bridge.KeySettings(&k.Settings)
			}
		}
	}
	return config, keys, err
}

// definitions ends the export with the schedules, sources and links that can be read.
func (w *salvagedQueue) definitions(ctx context.Context) error {
	return w.db.View(ctx, func(r kv.Reader) (err error) {
		w.export.Definitions, err = bridge.Definitions(r, w.queue)
		return err
	})
}

// items writes the items in one state. If a page cannot be read, it reads the items of that
// page one at a time. It counts an item that cannot be read, and continues behind it.
func (w *salvagedQueue) items(ctx context.Context, state fdbpq.State) error {
	all := fdbpq.Listing{State: state, Limit: w.salvaging.page, Bodies: true}
	for listing := all; ; {
		page, err := w.page(ctx, listing)
		switch {
		case err != nil && listing.Limit > 1:
			listing.Limit = 1
			continue
		case err != nil && listing.Bodies:
			listing.Bodies = false
			continue
		case err != nil:
			return fmt.Errorf("%s items: %w", state, err)
		case len(page.Items) == 0:
			return nil
		case !listing.Bodies:
			w.broken++
		default:
			for i := range page.Items {
				if err := w.item(&page.Items[i]); err != nil {
					return err
				}
			}
		}
		listing = all
		listing.After = &page.Items[len(page.Items)-1].ID
	}
}

func (w *salvagedQueue) page(ctx context.Context, listing fdbpq.Listing) (page fdbpq.Page, err error) {
	err = w.db.View(ctx, func(r kv.Reader) (err error) {
		page, err = w.queue.List(r, listing)
		return err
	})
	return page, err
}

// item writes an item as a line, with what an import takes back.
func (w *salvagedQueue) item(held *fdbpq.StoredItem) error {
	line := bridge.Listed(w.store, held).Item()
	line.Since, line.Holder, line.Attempts, line.Cause = time.Time{}, "", 0, ""
	line.SetHeaders(bridge.Headers(&held.Item))
	line.SetPayload(held.Payload)
	return w.export.Write(&line)
}

// A store that somebody else made may have queues by any name, such as ../../x. Their files have other names, which
// lead nowhere else, and no terminal gets them as they are.

// maxFileName bounds the bytes of the name of a queue in the name of a file: most file systems have 255 for both.
const maxFileName = 200

// salvageFile is the name of the file with the items of a queue. Two queues have two files.
func salvageFile(queue string) string {
	name := queue
	if subjects.CheckStored(queue) != nil {
		name = escapedName(queue)
	}
	if len(name) > maxFileName {
		name = fmt.Sprintf("%s%%%%%x", name[:maxFileName/2], sha256.Sum256([]byte(queue)))
	}
	return name + ".jsonl"
}

// escapedName has %XX for each byte that no name of a queue may have.
func escapedName(queue string) string {
	var b strings.Builder
	for i := range len(queue) {
		if c := queue[i : i+1]; c == "_" || subjects.CheckQueue(c) == nil {
			b.WriteString(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

// salvageName is the name of a queue for people.
func salvageName(queue string) string {
	if subjects.CheckStored(queue) != nil {
		return fmt.Sprintf("%q, which no queue may be called", queue)
	}
	return queue
}
