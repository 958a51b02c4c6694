package commands

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/pqbridge/pqbridge/cmd/pqd/internal/settings"
	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster"
)

// RecoverRequest asks the pqd of this machine to begin a new generation of the log.
type RecoverRequest struct {
	Yes     bool   `json:"yes"`     // without it pqd only describes the recovery
	From    string `json:"from"`    // the node with whose copy the store goes on
	Without string `json:"without"` // nodes that do not answer, separated by commas
}

// recoverAnswer is the recovery that pqd has made, or would make, or the reason against it.
type recoverAnswer struct {
	Plan  cluster.Recovery `json:"plan"`
	Done  bool             `json:"done"`
	Error string           `json:"error,omitempty"`
}

// RecoverFlags are the flags of pqd recover.
func RecoverFlags(flags *flag.FlagSet) *RecoverRequest {
	r := &RecoverRequest{}
	flags.BoolVar(&r.Yes, "yes", false, "")
	flags.StringVar(&r.From, "from", "", "")
	flags.StringVar(&r.Without, "without", "", "")
	return r
}

// recoverLimit is longer than a recovery takes: the loss has to last, and NATS servers may be electing a leader.
const recoverLimit = 3 * time.Minute

// Recover asks the pqd on this machine to begin a new generation of the log, and prints the losses.
func Recover(ctx context.Context, s settings.Settings, ask RecoverRequest, stdout io.Writer) error {
	if !s.Shared() {
		return settings.Usagef("PQ_STORE=%s has no log that several pqd share: expected PQ_CLUSTER or PQ_STORE=jetstream:<name>", s.Store)
	}
	var answer recoverAnswer
	_, err := askRunning(ctx, s, "/recover", ask, &answer)
	if errors.Is(err, errNotRunning) {
		return fmt.Errorf("no pqd with PQ_DATA=%s runs here: start all nodes that can be started, and run this beside one of them, with its settings", s.Data)
	}
	if err != nil {
		return err
	}
	if err := printRecovery(stdout, answer.Plan); err != nil {
		return err
	}
	switch {
	case answer.Error != "":
		return fmt.Errorf("nothing was begun: %s (--from <node> names the copy to go on with, --without <node> one to go on without)", answer.Error)
	case !answer.Done:
		return errors.New("nothing was done yet: add --yes to begin the new generation")
	}
	_, err = fmt.Fprintf(stdout, "generation %d has begun: the nodes go over to it, and one of them serves\n", answer.Plan.Generation)
	return err
}

func printRecovery(stdout io.Writer, r cluster.Recovery) error {
	table := tabwriter.NewWriter(stdout, 0, 8, 2, ' ', 0)
	fmt.Fprintln(table, "NODE\tANSWERS\tROLE\tGENERATION\tEPOCH\tENTRY")
	for _, m := range r.Members {
		answers := "yes"
		if !m.Answers {
			answers = "no, last heard:"
		}
		if !m.Known {
			fmt.Fprintf(table, "%s\tnever heard\t\t\t\t\n", m.Name)
			continue
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%d\t%d\t%d\n", m.Name, answers, m.Role, m.Generation, m.Epoch, m.Entry)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	text := "the log: " + r.Log + "\n"
	if r.Source.Name != "" {
		text += fmt.Sprintf("generation %d goes on with the copy of node %s, which has the log up to entry %d of generation %d\n", r.Generation, r.Source.Name, r.Source.Entry, r.Source.Generation)
		if len(r.Lost) == 0 {
			text += "lost: nothing that any node knows of\n"
		}
		for _, lost := range r.Lost {
			text += "lost: " + lost + "\n"
		}
	}
	_, err := io.WriteString(stdout, text)
	return err
}
