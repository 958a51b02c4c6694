// Command bench compares pqd with what people would use instead, and with the
// least that any NATS service costs, on one machine in one run.
//
//	go run .          a short comparison
//	go run . -full    the one that docs/performance.md shows
//	go run . -queues  pqd alone, on one queue and on many
//	go run . -library  one program with many workers, each system with its own client library
//	go run . -neighbours  a queue of pqd beside clients of another one
//	go run . -chaos   pqd and River, a queue on PostgreSQL, under faults
//
// Every system runs on 127.0.0.1 with data that is thrown away. The load comes
// from a process of its own. Systems take turns, round by round, and stand
// still while others have theirs, so that whatever else the machine does meets
// all of them alike: the ratios are the result, not the rates.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// run is the comparison, or one of the processes that it consists of.
func run(ctx context.Context, args []string) error {
	if len(args) > 0 {
		switch verb, rest := args[0], args[1:]; {
		case verb == "drive" && len(rest) == 0:
			return driveMain(os.Stdin, os.Stdout)
		case verb == "echo" && len(rest) == 1:
			return echoMain(ctx, rest[0])
		case verb == "loud" && len(rest) == 2:
			return loudMain(rest[0], rest[1])
		case verb == "replica" && len(rest) == 3:
			return replicaMain(ctx, rest[0], rest[1], rest[2])
		case verb == "jetstream" && (len(rest) == 3 || len(rest) == 5):
			return jetstreamMain(rest[0], rest[1], rest[2], rest[3:]...)
		}
	}
	var o options
	if err := o.parse(args); err != nil {
		return err
	}
	return compare(ctx, o)
}

// options are what the command line asks for.
type options struct {
	full   bool
	nodes  bool
	queues bool
	beside bool
	shared bool
	chaos  bool
	only   *regexp.Regexp
	dir    string
	page   string
	json   string
	into   string
	items  int
	plan   plan
}

func (o *options) parse(args []string) error {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	only := flags.String("only", "", "regular expression: compare only the systems whose names it matches; with -neighbours measure only the loads")
	flags.BoolVar(&o.full, "full", false, "more and longer rounds, and queues of ten million items; takes an hour or two")
	flags.BoolVar(&o.nodes, "replicated", false, "compare three pqd with one, and with JetStream of three replicas")
	flags.BoolVar(&o.queues, "queues", false, "measure pqd alone, on 1 to 10,000 queues")
	flags.BoolVar(&o.beside, "neighbours", false, "measure a queue of pqd before and during the loads of a client with another queue; -phase is the length of each")
	flags.BoolVar(&o.shared, "library", false, "compare one program with 1 to 64 workers, each system with its own client library")
	flags.BoolVar(&o.chaos, "chaos", false, "run pqd, and River on PostgreSQL, through the faults of a public comparison; -phase is the length of a phase there, 0: 1m")
	flags.StringVar(&o.dir, "dir", "/var/tmp", "where data is kept meanwhile; has to be on a disk")
	flags.StringVar(&o.page, "page", "", "file: write the tables into this page, such as ../docs/performance.md")
	flags.StringVar(&o.json, "json", "", "file: write all samples there")
	flags.IntVar(&o.items, "items", 10_000_000, "items in a deep queue, with -full; 0 leaves deep queues out")
	flags.StringVar(&o.into, "profile", "", "directory: compare nothing, write profiles of pqd under load there")
	rounds := flags.Int("rounds", 0, "rounds; 0: 2, or 5 with -full")
	phase := flags.Duration("phase", 0, "length of each measurement; 0: 200ms, or 1.5s with -full")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("found the argument %q: expected flags alone, see -help", flags.Arg(0))
	}
	if o.queues && (o.nodes || *only != "" || o.into != "") {
		return errors.New("found -queues: it measures pqd alone, without -replicated, -only and -profile")
	}
	var err error
	if o.only, err = regexp.Compile(*only); err != nil {
		return fmt.Errorf("-only: %w", err)
	}
	o.plan = plan{rounds: 2, phase: 200 * time.Millisecond, clients: []int{64, 256, 1}, limit: 135 * time.Second}
	if o.full {
		o.plan.rounds, o.plan.phase, o.plan.limit = 5, 1500*time.Millisecond, 2*time.Hour
		if o.items > 0 && !o.queues {
			o.plan.deep = &deepPlan{
				items: o.items, pops: o.items / 2, rounds: 3, phase: time.Second, limit: 5 * time.Minute,
				of: []string{namePQD, nameJS, nameRedisAlways, nameBeanstalkd, namePostgres, nameRabbit},
			}
		}
	}
	if *rounds > 0 {
		o.plan.rounds = *rounds
	}
	if o.chaos {
		o.plan.phase = time.Minute
	}
	if *phase > 0 {
		o.plan.phase = *phase
	}
	return nil
}

// compare runs the comparison and reports it.
func compare(ctx context.Context, o options) (err error) {
	if volatile, err := inMemory(o.dir); err != nil || volatile {
		return errors.Join(err, fmt.Errorf("-dir %s: expected a directory on a disk", o.dir))
	}
	r := &runner{plan: o.plan, out: os.Stderr, site: &site{}}
	r.results.Machine = describe(ctx, o.dir)
	if r.site.self, err = os.Executable(); err != nil {
		return err
	}
	if r.site.dir, err = os.MkdirTemp(o.dir, "pqbridge-bench-"); err != nil {
		return err
	}
	defer os.RemoveAll(r.site.dir)
	if err := os.Chmod(r.site.dir, 0o755); err != nil { // some servers run as users of their own
		return err
	}
	if err := r.site.build(ctx); err != nil {
		return err
	}
	if o.into != "" {
		return r.profile(ctx, o.into)
	}
	if o.beside {
		return r.measureNeighbours(ctx, o.only)
	}
	if o.chaos {
		return r.measureFaults(ctx, o)
	}
	if o.shared {
		return r.measureLibraries(ctx, o)
	}
	var chosen []*system
	for _, s := range systems {
		// Everything is compared with echo, which lives on pqd.
		if s.name == namePQD || !o.queues && (s.name == nameEcho || o.compares(s)) {
			chosen = append(chosen, s)
		}
	}
	defer r.killAll()
	if err := r.openAll(ctx, chosen); err != nil {
		return err
	}
	measure := r.measure
	if o.queues {
		measure = r.measureQueues
	}
	if err := measure(ctx); err != nil {
		return err
	}
	if err := r.allocations(ctx); err != nil {
		return err
	}
	if o.plan.deep != nil {
		if err := r.deepen(ctx); err != nil {
			return err
		}
	}
	if err := r.closeAll(); err != nil {
		return err
	}
	r.results.Machine.Took = time.Since(r.results.Machine.Began)
	return r.results.publish(o)
}

// compares says whether a system is one of those that were asked for.
func (o *options) compares(s *system) bool {
	if o.nodes && s.name != nameJSAlways && !s.nodes || !o.nodes && s.nodes {
		return false
	}
	return o.only.MatchString(s.name)
}

// build makes the daemon from the sources around this module.
func (s *site) build(ctx context.Context) error {
	s.pqd = filepath.Join(s.dir, "pqd.bin")
	where, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/pqbridge/pqbridge").Output()
	if err != nil {
		return fmt.Errorf("find the sources of pqd: run this in its own directory: %w", err)
	}
	build := exec.CommandContext(ctx, "go", "build", "-C", strings.TrimSpace(string(where)), "-o", s.pqd, "./cmd/pqd")
	build.Stderr = os.Stderr
	build.Env = append(os.Environ(), "GOWORK=off") // exactly as it is built for use
	if err := build.Run(); err != nil {
		return fmt.Errorf("build pqd: %w", err)
	}
	return nil
}

// publish prints the tables and writes the files that were asked for.
func (r *results) publish(o options) error {
	var text strings.Builder
	r.write(&text)
	if _, err := os.Stdout.WriteString(text.String()); err != nil {
		return err
	}
	if o.json != "" {
		all, err := json.MarshalIndent(r, "", " ")
		if err != nil {
			return err
		}
		if err := os.WriteFile(o.json, all, 0o644); err != nil {
			return err
		}
	}
	return r.file(o, text.String())
}

// file enters a report into the page, if one was named.
func (r *results) file(o options, report string) error {
	if o.page == "" {
		return nil
	}
	old, err := os.ReadFile(o.page)
	if err != nil {
		return err
	}
	page, err := r.enter(string(old), o.kind(), report)
	if err != nil {
		return fmt.Errorf("%s: %w", o.page, err)
	}
	return os.WriteFile(o.page, []byte(page), 0o644)
}

// kind is what the page calls the comparison.
func (o *options) kind() string {
	switch {
	case o.chaos:
		return "chaos"
	case o.queues:
		return "queues"
	case o.nodes:
		return "replicated"
	default:
		return "systems"
	}
}
