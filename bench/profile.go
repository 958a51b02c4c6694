package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"time"
)

// The times of a profile: the load runs in, is looked at, and runs out.
const (
	profileLoad  = 10 * time.Second
	profileAfter = 2 * time.Second
	profileLook  = 5

	profileFill = 500_000 // more than is popped in that time
)

// profile takes profiles of pqd under each kind of load.
func (r *runner) profile(ctx context.Context, into string) error {
	if err := os.MkdirAll(into, 0o755); err != nil {
		return err
	}
	looked := *systemNamed(namePQD)
	looked.start = startPQD("PQ_PROFILE=true")
	srv, err := r.site.open(ctx, &looked, "profiled", nil)
	if err != nil {
		return err
	}
	defer srv.kill()
	echo, err := r.site.open(ctx, systemNamed(nameEcho), nameEcho, srv)
	if err != nil {
		return err
	}
	defer echo.kill()
	for _, clients := range []int{64, 256} {
		if err := r.profileAt(ctx, srv, echo, clients, into); err != nil {
			return err
		}
	}
	return errors.Join(echo.stop(), srv.stop())
}

// profileAt profiles each verb, and the echo, of which the NATS server's part
// is seen: what there is more of with pqd is pqd's.
func (r *runner) profileAt(ctx context.Context, srv, echo *server, clients int, into string) error {
	for _, verb := range []string{nameEcho, verbPush, verbPop, verbMixed, verbLease, verbNext} {
		under, does := srv, verb
		if verb == nameEcho {
			under, does = echo, verbPush
		}
		if verb != nameEcho && verb != verbPush {
			fill := step{Verb: verbFill, N: profileFill, Limit: time.Minute}
			if _, err := r.site.drive(ctx, srv, fillers, fill); err != nil {
				return err
			}
			time.Sleep(profileAfter) // until it is sorted into place
		}
		type outcome struct {
			measures []measure
			err      error
		}
		before, err := srv.commits(ctx)
		if err != nil {
			return err
		}
		done := make(chan outcome, 1)
		go func() {
			m, err := r.site.drive(ctx, under, clients, step{Verb: does, Limit: profileLoad})
			done <- outcome{m, err}
		}()
		time.Sleep(profileAfter)
		for _, kind := range []string{"profile", "allocs"} {
			name := fmt.Sprintf("%s-%d.%s.pprof", directory(&system{name: verb}), clients, kind)
			look := profileLook
			if kind != "profile" {
				look = 1
			}
			page := fmt.Sprintf("http://%s/debug/pprof/%s?seconds=%d", srv.pages, kind, look)
			if err == nil {
				err = download(ctx, page, filepath.Join(into, name))
			}
		}
		o := <-done
		if err != nil || o.err != nil {
			return fmt.Errorf("%s: %w, %w", verb, err, o.err)
		}
		m := &o.measures[0]
		r.progress("%s, %d clients: %s a second, processor time of server and load: %s and %s", verb, clients, number(m.rate()), m.CPU/time.Duration(m.N), m.Load/time.Duration(m.N))
		after, err := srv.commits(ctx)
		if err != nil {
			return err
		}
		if verb != nameEcho {
			r.progress("%s, %d clients: %.1f a commit", verb, clients, float64(m.N)/max(1, after-before))
		}
	}
	for _, kind := range []string{"block", "mutex"} {
		page := fmt.Sprintf("http://%s/debug/pprof/%s", srv.pages, kind)
		if err := download(ctx, page, filepath.Join(into, fmt.Sprintf("all-%d.%s.pprof", clients, kind))); err != nil {
			return err
		}
	}
	return nil
}

func download(ctx context.Context, page, path string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, page, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer file.Close()
	if _, err := io.Copy(file, response.Body); err != nil {
		return err
	}
	return file.Close()
}
