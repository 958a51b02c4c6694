package top

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/cmd/pq/internal/figures"
	"github.com/pqbridge/pqbridge/cmd/pq/internal/session"
	"github.com/pqbridge/pqbridge/cmd/pq/internal/show"
	"github.com/pqbridge/pqbridge/internal/natsurl"
)

// lines prints the queues again and again.
func (w *watching) lines(s *session.Session) error {
	c, err := s.Connect()
	if err != nil {
		return err
	}
	ticker := time.NewTicker(w.interval)
	defer ticker.Stop()
	for n := 1; ; n++ {
		if n > 1 && !s.Global.JSON {
			if err := s.Print("\n"); err != nil {
				return err
			}
		}
		switch err := w.look(s, c); {
		case err == nil:
		case n == 1, n == w.count, s.Context.Err() != nil:
			return session.Interrupted(s.Context, err)
		default:
			s.Warn(err)
		}
		if n == w.count {
			return nil
		}
		select {
		case <-ticker.C:
		case <-s.Context.Done():
			return session.Interrupted(s.Context, s.Context.Err())
		}
	}
}

// look prints the queues once.
func (w *watching) look(s *session.Session, c *client.Client) error {
	infos, left, err := figures.QueuesOf(s.Context, c, "")
	if err != nil {
		return err
	}
	if s.Global.JSON {
		for _, info := range infos {
			if err := s.PrintJSON(info); err != nil {
				return err
			}
		}
		return nil
	}
	all := figures.Of(infos, figures.ByName(infos), time.Now())
	figures.Sort(all, w.sort, false)
	head := fmt.Sprintf("%s  prefix %s  %s", cmp.Or(natsurl.Of(s.NC), "not connected"), s.Global.Prefix, time.Now().Format(time.TimeOnly))
	lines := append(append([]string{head, totals(all)}, left.Lines()...), "")
	lines = append(lines, figures.QueueLines(all, LineColumns)...)
	return s.Print(strings.Join(lines, "\n") + "\n")
}

func totals(all []*figures.Queue) string {
	return show.Many(int64(len(all)), "queue") + "  " + sums(all)
}

func sums(all []*figures.Queue) string {
	var t client.Info
	for _, i := range all {
		t.Ready, t.Leased, t.Delayed = t.Ready+i.Ready, t.Leased+i.Leased, t.Delayed+i.Delayed
		t.Rates.Push += i.Rates.Push
		t.Rates.Pop += i.Rates.Pop
	}
	return fmt.Sprintf("%s ready  %s leased  %s delayed  %s pushes/s  %s pops/s",
		show.Thousands(t.Ready), show.Thousands(t.Leased), show.Thousands(t.Delayed), show.Rate(t.Rates.Push), show.Rate(t.Rates.Pop))
}

var LineColumns = figures.QueueColumnsBut("dead", "size")
