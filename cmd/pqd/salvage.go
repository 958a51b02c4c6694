package main

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"
	"unicode/utf8"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/bridge"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/fdbpq/kv/local"
)

// salvage writes what can be read of a damaged store that no process has open: a
// file for each queue, as pq export makes them and pq import takes them.
func salvage(ctx context.Context, s settings, to string, log *slog.Logger, stdout io.Writer) (err error) {
	dir, err := embeddedStore(s, "FoundationDB has copies, and tools of its own")
	if err != nil {
		return err
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) == 0 {
		return errors.Join(fmt.Errorf("PQ_STORE=%s: expected the directory of a store", s.Store), err)
	}
	db, err := local.Open(dir, local.Options{Salvage: true, Log: log})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	store, err := fdbpq.Open(ctx, db, fdbpq.Options{Exclusive: true})
	if err != nil {
		return fmt.Errorf("what every store begins with cannot be read: %w", err)
	}
	if err := os.Mkdir(to, 0o700); err != nil {
		return err
	}
	x := salvaging{db: db, store: store, to: to, stdout: stdout}
	if err := x.all(ctx); err != nil {
		return err
	}
	for _, d := range db.Damage() {
		if _, err := fmt.Fprintf(stdout, "%s is damaged: %s\n", filepath.Base(d.File), d.What); err != nil {
			return err
		}
	}
	return nil
}

// salvaging is one run.
type salvaging struct {
	db     *local.DB
	store  *fdbpq.Store
	to     string
	stdout io.Writer
}

func (x *salvaging) all(ctx context.Context) error {
	for after := ""; ; {
		before := x.db.Skipped()
		var names []string
		err := x.db.View(ctx, func(r kv.Reader) (err error) {
			names, err = x.store.Queues(r, after, salvagePage)
			return err
		})
		if err != nil {
			return err
		}
		if x.db.Skipped() > before {
			if _, err := fmt.Fprintln(x.stdout, "some queues cannot be read at all, not even their names"); err != nil {
				return err
			}
		}
		if len(names) == 0 {
			return nil
		}
		for _, name := range names {
			if err := x.queue(ctx, name); err != nil {
				return fmt.Errorf("queue %s: %w", name, err)
			}
		}
		after = names[len(names)-1]
	}
}

const salvagePage = 500

// queue writes what is left of one queue.
func (x *salvaging) queue(ctx context.Context, name string) (err error) {
	path := filepath.Join(x.to, name+".jsonl")
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	out := bufio.NewWriter(file)
	before, sum := x.db.Skipped(), sha256.New()
	w := salvagedQueue{salvaging: x, queue: x.store.Queue(name), lines: json.NewEncoder(io.MultiWriter(out, sum))}
	w.lines.SetEscapeHTML(false)
	for _, state := range []fdbpq.State{fdbpq.StateReady, fdbpq.StateDelayed, fdbpq.StateLeased} {
		if err := w.items(ctx, state); err != nil {
			return err
		}
	}
	last := salvagedEnd{Queue: name, Items: w.written, SHA256: hex.EncodeToString(sum.Sum(nil)), Config: w.config(ctx)}
	if err := json.NewEncoder(out).Encode(map[string]salvagedEnd{"export": last}); err != nil {
		return err
	}
	if err := errors.Join(out.Flush(), file.Sync()); err != nil {
		return err
	}
	what := "as it was"
	if n := x.db.Skipped() - before; n > 0 || w.broken > 0 {
		what = fmt.Sprintf("not all of it: %d stretches and %d items could not be read; what had been taken may be there again", n, w.broken)
	}
	_, err = fmt.Fprintf(x.stdout, "%s: %d items in %s, %s\n", name, w.written, path, what)
	return err
}

// salvagedQueue is a queue that is being written.
type salvagedQueue struct {
	*salvaging
	queue   fdbpq.Queue
	lines   *json.Encoder
	written int64
	broken  int64 // items of which parts are missing
}

// config is nil when it cannot be read.
func (w *salvagedQueue) config(ctx context.Context) (config *fdbpq.Config) {
	_ = w.db.View(ctx, func(r kv.Reader) error {
		i, err := w.queue.Inspect(r)
		if err == nil && i != nil {
			config = &i.Config
		}
		return err
	})
	return config
}

// items writes the items in one state. When a page cannot be made, its items are
// read one at a time; of one that still cannot be read, at least the place is.
func (w *salvagedQueue) items(ctx context.Context, state fdbpq.State) error {
	all := fdbpq.Listing{State: state, Limit: salvagePage, Bodies: true}
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

// item writes an item as a line.
func (w *salvagedQueue) item(held *fdbpq.StoredItem) error {
	line := salvagedItem{
		ID: held.ID.String(), Priority: held.Priority, State: held.State, Deliveries: held.Deliveries, Pushed: held.Pushed.UTC(),
		Size: held.Size, Fence: held.Fence, Headers: bridge.Headers(&held.Item),
	}
	if held.State != fdbpq.StateReady {
		line.Due = w.store.Display(held.Due).UTC()
	}
	if held.Expires != 0 {
		line.Expires = w.store.Display(held.Expires).UTC()
	}
	if held.Dead != nil {
		line.Dead = (*salvagedDeath)(held.Dead)
	}
	if utf8.Valid(held.Payload) {
		text := string(held.Payload)
		line.Payload = &text
	} else {
		line.Base64 = held.Payload
	}
	w.written++
	return w.lines.Encode(line)
}

// salvagedItem is a line of the file, as pq import reads it.
type salvagedItem struct {
	ID         string         `json:"id"`
	Priority   int64          `json:"priority"`
	State      fdbpq.State    `json:"state"`
	Deliveries int64          `json:"deliveries,omitempty"`
	Pushed     time.Time      `json:"pushed,omitzero"`
	Due        time.Time      `json:"due,omitzero"`
	Expires    time.Time      `json:"expires,omitzero"`
	Size       int64          `json:"size,omitempty"`
	Headers    nats.Header    `json:"headers,omitempty"`
	Payload    *string        `json:"payload,omitempty"`        // when it is UTF-8
	Base64     []byte         `json:"payload_base64,omitempty"` // when it is not
	Fence      int64          `json:"fence,omitempty"`
	Dead       *salvagedDeath `json:"dead,omitempty"`
}

// salvagedDeath is why an item is in a dead-letter queue.
type salvagedDeath struct {
	Reason   string `json:"reason"`
	Origin   string `json:"origin"`
	OriginID string `json:"origin_id"`
}

// salvagedEnd is the last line.
type salvagedEnd struct {
	Queue  string        `json:"queue"`
	Items  int64         `json:"items"`
	SHA256 string        `json:"sha256"` // of the lines before it
	Config *fdbpq.Config `json:"config,omitempty"`
}
